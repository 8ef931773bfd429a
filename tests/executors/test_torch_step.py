"""A training step on a GPU waits for it once, and its data are there before it asks: with CUDA's calls stood in for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from material import measured, quiet, spec_of, training

torch = pytest.importorskip("torch", reason="needs the torch extra")

from twinlens.executors.torch import device as clock_marks  # noqa: E402
from twinlens.executors.torch import train  # noqa: E402
from twinlens.executors.torch.ceiling import rates, timing  # noqa: E402
from twinlens.executors.torch.ceiling.timing import captured, sustained, timed  # noqa: E402
from twinlens.executors.torch.evidence.inference import launch_bound  # noqa: E402
from twinlens.executors.torch.model import data  # noqa: E402
from twinlens.executors.torch.model.data import Ahead, Batches  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402
from twinlens.stats.finding.checks import Seen, steps_skipped  # noqa: E402
from twinlens.stats.summary.serving import nothing  # noqa: E402

pytestmark = pytest.mark.torch
CUDA = torch.device("cuda", 0)


class Clock:
    """The device's time in seconds, moved by what runs on it."""

    now_s = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """CUDA events that read a clock of our own; a stream's name is the device it was asked of."""
    clock = Clock()

    class Event:
        def __init__(self, enable_timing: bool = False) -> None:
            assert enable_timing
            self.at_s, self.stream = -1.0, ""

        def record(self, stream: Any = None) -> None:
            self.at_s, self.stream = clock.now_s, str(stream)

        def synchronize(self) -> None:
            pass

        def elapsed_time(self, end: Any) -> float:
            return float((end.at_s - self.at_s) * 1e3)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: f"stream of {device}")
    return clock


def test_a_step_synchronises_once_and_its_phases_are_those_of_the_device(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = train.TorchTrainer()
    trainer.open(spec_of(training(point={"microbatch": 2})), quiet)
    waits: list[Any] = []
    monkeypatch.setattr(train, "synchronize", waits.append)
    monkeypatch.setattr(train, "mark", lambda device: clock_marks.mark(CUDA))
    real_next, real_loss, real_step = trainer.batches.next, trainer.loss, trainer.scaler.step

    def after(seconds: float, call: Any) -> Any:
        def late(*parts: Any) -> Any:
            clock.now_s += seconds
            return call(*parts)

        return late

    trainer.batches.next = after(0.001, real_next)  # type: ignore[method-assign]
    trainer.loss = after(0.01, real_loss)  # type: ignore[method-assign]
    monkeypatch.setattr(trainer.scaler, "step", after(0.1, real_step))
    marks = trainer.step()
    assert len(waits) == 1
    assert (marks.data_ns, marks.forward_ns, marks.optimize_ns) == (2_000_000, 20_000_000, 100_000_000)
    assert marks.backward_ns == 0


def test_a_step_that_overflows_in_fp16_is_tagged_and_told(tmp_path: Path) -> None:
    trainer = train.TorchTrainer()
    trainer.open(spec_of(training()), quiet)
    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, enabled=True)  # 6 nats times that is no fp32
    weight = next(iter(trainer.model.parameters()))
    before = weight.detach().clone()
    assert trainer.step().tag == "skipped"
    assert torch.equal(weight, before)
    while trainer.step().tag == "skipped":  # the scale halves until the gradients fit
        assert torch.equal(weight, before)
    assert not torch.equal(weight, before)
    run = measured(tmp_path, training("fake", protocol={"min_rows": 8}))
    run.steps.tag[:3] = "skipped"
    (found,) = steps_skipped(Seen(run, {}, nothing()))
    assert (found.code, dict(found.numbers)["skipped"]) == ("steps-skipped", 3)
    assert sentence_of(found).startswith("3 of ")


def test_a_gpu_that_waits_for_launches_is_told_apart_from_one_that_computes() -> None:
    assert launch_bound("decode", 0.6e-3, 1.0e-3) is None
    bound = launch_bound("decode", 0.2e-3, 1.0e-3)
    assert bound is not None
    assert sentence_of(bound).startswith("Launch-bound: one decode takes 1.00 ms, its kernels only 0.20 ms")


def test_batches_drawn_ahead_are_those_drawn_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_pinned", lambda tensor, device: tensor)
    spec = spec_of(training())
    cpu, ref = torch.device("cpu"), load_model("tiny")
    plain, ahead = (Batches(spec.workload.data, ref, 2, 16, 5, cpu, 4) for _ in range(2))  # type: ignore[union-attr]
    ahead._ahead = Ahead(ahead._draw_tokens, cpu)
    for _ in range(6):
        for one, other in zip(plain.next(), ahead.next(), strict=True):
            assert torch.equal(one, other)
    ahead.close()
    assert not any(thread.name == "twinlens batches" for thread in threading.enumerate())


def test_what_fails_while_drawing_ahead_comes_out_of_the_loop() -> None:
    def broken() -> Any:
        raise ValueError("the text is gone")

    ahead = Ahead(broken, torch.device("cpu"))
    with pytest.raises(ValueError, match="the text is gone"):
        ahead.next()
    ahead.close()


def test_a_processor_draws_in_the_loop_and_starts_no_thread() -> None:
    batches = Batches(
        spec_of(training()).workload.data,
        load_model("tiny"),
        2,
        16,
        5,
        torch.device("cpu"),
        4,  # type: ignore[union-attr]
    )
    batches.next()
    assert batches.how == "made in the loop"
    assert not any(thread.name == "twinlens batches" for thread in threading.enumerate())


def test_events_are_recorded_on_the_stream_of_the_device_that_is_timed(clock: Clock) -> None:
    assert timing._event("cuda:1").stream == "stream of cuda:1"


def test_a_short_call_is_repeated_until_a_millisecond_is_full(clock: Clock) -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        clock.now_s += 1e-5

    assert timed(call, "cuda:0", budget_s=1e-9) == pytest.approx([1e-5] * 3)
    assert calls >= 3 * 100


def test_a_sustained_rate_is_of_a_warm_board_over_two_seconds(clock: Clock) -> None:
    """Boost for half a second, then the power limit: 1 ms a call becomes 1.25 ms, and that is the rate that is told."""

    def call() -> None:
        clock.now_s += 1e-3 if clock.now_s < 0.5 else 1.25e-3

    seconds = sustained(call, "cuda:0")
    assert seconds == pytest.approx([1.25e-3] * 9)
    assert 1.0 + 2.0 <= clock.now_s < 1.5 + 2.5, "warm for a second or a little more, then timed for two"


def test_a_first_call_that_starts_the_library_does_not_shorten_the_two_seconds(clock: Clock) -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        clock.now_s += 0.5 if calls == 1 else 1.4e-3

    seconds = sustained(call, "cuda:0")
    assert seconds == pytest.approx([1.4e-3] * 9)
    assert calls > 3.0 / 1.4e-3, "a second of warming and two of timing, where 12 calls were"


def test_probe_prints_the_rate_that_a_gpu_keeps_up(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def product(fmt: str, m: int, n: int, k: int, device: str) -> Any:
        def call() -> None:
            clock.now_s += (2 * m**3 / 50e12) * (1.0 if clock.now_s % 100 < 0.2 else 1.6)

        clock.now_s = 100.0 * (1 + clock.now_s // 100)  # each format begins on a board that is cold
        return call, "stood in"

    monkeypatch.setattr(rates, "product", product)
    monkeypatch.setattr(rates, "board_state", lambda device: "")
    monkeypatch.setattr(rates, "pattern", lambda size, device: torch.zeros(1))
    for name in ("copy_bytes_per_s", "read_bytes_per_s", "matvec_bytes_per_s", "buffer_bytes"):
        monkeypatch.setattr(rates, name, lambda *_: None)
    found = {row.format: row.estimate for row in rates.all_ceilings("cuda:0") if row.kind == "matrix"}
    assert found["bf16"].value == pytest.approx(50e12 / 1.6)
    assert "8192 squared, 2 s back to back" in found["bf16"].method


def test_what_cannot_be_captured_is_timed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("capture is not permitted")

    monkeypatch.setattr(torch.cuda, "Stream", refuse)
    call = lambda: None  # noqa: E731
    assert captured(call, "cuda:0") is call
    assert captured(call, "cpu") is call


def test_a_gpus_matrix_rate_never_comes_from_a_small_product(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def product(fmt: str, m: int, n: int, k: int, device: str) -> Any:
        sizes.append(m)

        def call() -> None:
            clock.now_s += 0.3 if m == 256 else 2 * m**3 / 50e12  # the first product starts the library

        return call, "stood in"

    monkeypatch.setattr(rates, "product", product)
    rate = rates.matrix_flop_per_s("fp32", "cuda:0", budget_s=0.0)
    assert max(sizes) == 4096
    assert rate.value == pytest.approx(50e12)


def test_a_buffer_that_the_cache_holds_gives_no_memory_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "cache_bytes", lambda device="cpu": 2**20)
    small = torch.zeros(2**21, dtype=torch.uint8)
    for measure in (rates.copy_bytes_per_s, rates.read_bytes_per_s):
        outcome = measure("cuda:0", buffer=small)
        assert outcome.value is None
        assert "only 2 MiB were free" in (outcome.reason or "")
