"""Exchanges that are queued on a device's stream, on a stream whose every nanosecond is known."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from twinlens.executors.torch.parallel import exchange  # noqa: E402

LAUNCH_NS, EXCHANGE_NS, BARRIER_NS = 9_000, 30_000, 250_000


class Stream:
    """A host that launches in 9 µs, and a device that takes 30 µs for an exchange and does one after the other."""

    def __init__(self) -> None:
        self.host_ns = self.device_ns = 0

    def exchange(self) -> None:
        self.host_ns += LAUNCH_NS
        self.device_ns = max(self.device_ns, self.host_ns) + EXCHANGE_NS

    def mark(self, device: Any) -> int:
        return max(self.device_ns, self.host_ns)

    def synchronize(self, device: Any) -> None:
        self.host_ns = max(self.host_ns, self.device_ns)

    def barrier(self) -> None:
        self.host_ns += BARRIER_NS


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    made = Stream()
    monkeypatch.setattr(exchange, "mark", made.mark)
    monkeypatch.setattr(exchange, "synchronize", made.synchronize)
    monkeypatch.setattr(exchange.dist, "barrier", made.barrier)
    monkeypatch.setattr(exchange.torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(exchange, "exchange_of", lambda kind, size, device: made.exchange)
    monkeypatch.setattr(exchange.time, "monotonic_ns", lambda: made.host_ns)
    return made


def test_an_exchange_on_a_gpu_lasts_as_long_as_the_device_needs_without_barrier_and_launch(stream: Stream) -> None:
    seconds = exchange.timed("all-reduce", 1024, 3, 20, torch.device("cuda"))
    assert seconds == pytest.approx([EXCHANGE_NS / 1e9] * 3, rel=1e-12)


def test_rows_of_a_gpu_follow_one_another_and_end_when_the_host_saw_the_last(stream: Stream) -> None:
    rows = exchange.stamped(stream.exchange, 4, torch.device("cuda"))
    assert [end - begin for begin, end in rows] == [EXCHANGE_NS] * 4
    assert [begin for begin, _ in rows[1:]] == [end for _, end in rows[:-1]]
    assert rows[-1][1] == stream.host_ns


def test_a_processor_keeps_its_own_clock_and_a_barrier_before_each(stream: Stream) -> None:
    rows = exchange.stamped(stream.exchange, 2, torch.device("cpu"))
    assert rows[0] == (BARRIER_NS, BARRIER_NS + LAUNCH_NS)
    assert rows[1][0] == 2 * BARRIER_NS + LAUNCH_NS
