"""NVML's own counters of a board, through nvidia-ml-py's types and calls over a stand-in for its shared library."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest
from nvml_library import SharedLibrary

from twinlens.clock import VirtualClock
from twinlens.measurement.machine.nvidia import LEAST_INTERVAL_NS, open_gpm
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.record.samples import COLUMNS
from twinlens.system.nvml import Gpu

S = 1_000_000_000
HANDLE = pynvml.c_nvmlDevice_t()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> SharedLibrary:
    return loaded(monkeypatch, SharedLibrary())


def loaded(monkeypatch: pytest.MonkeyPatch, library: SharedLibrary) -> SharedLibrary:
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return library


def test_the_first_reading_has_nothing_and_later_ones_are_shares_and_bytes(library: SharedLibrary) -> None:
    gpm = open_gpm(Gpu(pynvml, HANDLE))
    assert gpm is not None
    assert gpm.read(0) == {}
    read = gpm.read(S)
    assert read == {
        "sm_active": pytest.approx(0.8),
        "sm_occupancy": pytest.approx(0.3),
        "tensor_active": pytest.approx(0.55),
        "hmma_active": pytest.approx(0.54),
        "imma_active": 0.0,
        "dram_active": pytest.approx(0.9),
        "pcie_tx_bytes_per_s": 2 << 20,
        "pcie_rx_bytes_per_s": 4 << 20,
    }, "NVLink, which the board refuses, is left out and is not 0"
    assert set(read) <= set(COLUMNS)
    gpm.close()
    assert not library.live, "samples are given back"


def test_two_samples_are_never_nearer_than_nvml_refreshes_its_counters(library: SharedLibrary) -> None:
    gpm = open_gpm(Gpu(pynvml, HANDLE))
    assert gpm is not None
    gpm.read(0)
    assert gpm.read(LEAST_INTERVAL_NS) == {}
    assert library.calls == ["sample"]
    assert gpm.read(LEAST_INTERVAL_NS + 1)
    gpm.restart()
    assert gpm.read(3 * S) == {}, "what passed before a restart is none of the run's"
    assert library.calls == ["sample", "sample", "metrics", "sample"]
    gpm.close()


def test_a_reading_that_fails_is_empty_and_the_next_one_starts_again(library: SharedLibrary) -> None:
    gpm = open_gpm(Gpu(pynvml, HANDLE))
    assert gpm is not None
    gpm.read(0)
    library.refuses = True
    assert [bool(gpm.read(at * S)) for at in (1, 2, 3)] == [False, False, True]
    gpm.close()


@pytest.mark.parametrize("board", ["older", "slice", "old driver"])
def test_a_board_without_counters_has_none(monkeypatch: pytest.MonkeyPatch, board: str) -> None:
    library: Any = loaded(monkeypatch, SharedLibrary(supported=board != "older"))
    if board == "old driver":
        monkeypatch.setattr(pynvml, "nvmlLib", object())  # a library that has no such function
    assert open_gpm(Gpu(pynvml, HANDLE, board=HANDLE if board == "slice" else None)) is None
    assert not library.live


def test_the_sampler_puts_them_into_the_row_of_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    library = loaded(monkeypatch, SharedLibrary())
    clock, rows = VirtualClock(0), list[dict[str, Any]]()
    sampler = Sampler(rows.extend, [Gpu(pynvml, HANDLE)], start_ns=0, clock=clock, period_s=60.0)
    with sampler:
        sampler.pause()  # its sample is the earlier one, whoever took the first
        clock.advance_ns(S)
        sampler.pause()
        sampler.resume()
        clock.advance_ns(S)
        sampler.pause()
    of_board = [row for row in rows if row["source"].startswith("gpu:")]
    read = [(row["time_ns"], row["dram_active"]) for row in of_board if row["dram_active"] is not None]
    assert read == [(S, pytest.approx(0.9)), (2 * S, pytest.approx(0.9))], "whenever the sampler's own thread looks"
    assert (S, None) in [(row["time_ns"], row["dram_active"]) for row in of_board], "a turn begins without a share"
    assert all(row["dram_active"] is None for row in rows if row["source"] == "host")
    assert not library.live
