"""Whose memory the peak is: the process's, the launched server's, or the accelerator's."""

from __future__ import annotations

import pyarrow as pa

from twinlens.record.samples import TELEMETRY_SCHEMA, Sample
from twinlens.record.sections import DeviceMemory
from twinlens.stats.metrics.energy import peak_memory


def table(*samples: Sample) -> pa.Table:
    return pa.Table.from_pylist([sample.to_row() for sample in samples], schema=TELEMETRY_SCHEMA)


CLIENT = (Sample(0, "host", rss_bytes=900), Sample(1, "host", rss_bytes=800))
SERVER = (Sample(0, "server", rss_bytes=300), Sample(1, "server", rss_bytes=500))


def test_the_peak_of_a_process_is_its_own_largest_sample() -> None:
    peak = peak_memory(table(*CLIENT, *SERVER))
    assert (peak.value, peak.n) == (900, 2)


def test_the_peak_of_a_launched_server_is_not_that_of_its_client() -> None:
    peak = peak_memory(table(*CLIENT, *SERVER), is_server=True)
    assert (peak.value, peak.n) == (500, 2)
    assert "the server's processes" in peak.method


def test_a_launched_server_whose_memory_was_never_read_has_no_peak() -> None:
    peak = peak_memory(table(*CLIENT), is_server=True)
    assert (peak.value, peak.reason) == (None, "no telemetry sample has it")


BOARD = Sample(0, "gpu:GPU-7", memory_used_bytes=30_000)


def test_on_a_gpu_the_peak_is_the_allocators_and_what_the_board_held_is_said_beside_it() -> None:
    allocator = DeviceMemory(allocated_peak_bytes=5000, reserved_peak_bytes=8000)
    peak = peak_memory(table(*CLIENT, BOARD), on_gpu=True, allocator=allocator)
    assert (peak.value, peak.n) == (5000, 1)
    assert "7.81 KiB reserved" in peak.method
    assert "29.3 KiB in use, others' too" in peak.method


def test_on_a_gpu_the_memory_of_the_host_is_never_the_runs() -> None:
    peak = peak_memory(table(*CLIENT), on_gpu=True)
    assert peak.value is None
    assert "the host's is not the run's" in (peak.reason or "")
    assert peak_memory(table(*CLIENT, BOARD), on_gpu=True).value == 30_000


def test_on_an_accelerator_the_peak_is_the_boards() -> None:
    board = Sample(0, "gpu:GPU-7", memory_used_bytes=7000)
    assert peak_memory(table(*CLIENT, *SERVER, board), is_server=True).value == 7000


def test_a_model_that_is_split_over_boards_needs_the_sum_of_them_at_one_moment() -> None:
    samples = [
        Sample(at, f"gpu:{name}", memory_used_bytes=used)
        for at, name, used in ((0, "a", 50), (0, "b", 10), (1, "a", 20), (1, "b", 30), (2, "a", 90))
    ]
    peak = peak_memory(table(*samples), is_server=True)
    assert (peak.value, peak.n) == (60, 2), "at 2 one board was not read"
    assert "summed over 2 boards" in peak.method
