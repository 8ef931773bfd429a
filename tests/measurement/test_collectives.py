"""Collectives summed up from timings: bandwidths by hand-worked vectors, refusals, and a probe that planning reads."""

from __future__ import annotations

import json

import pytest

from twinlens.executors.in_process.ceiling import Collectives, Timing
from twinlens.executors.torch.parallel.exchanger import REFUSED, SIZES
from twinlens.measurement.machine.probe import CollectiveProbe, summed_up
from twinlens.planning.prediction.place import rates_of
from twinlens.planning.prediction.work import STORED
from twinlens.planning.probed import probed_device
from twinlens.record.codec import encode
from twinlens.reporting.document.block import Line, Table
from twinlens.reporting.judging.probe import collective_blocks
from twinlens.spec.device import load_device


def timed(kind: str, ranks: int, rate: float = 1e9, on_processor: bool = False) -> CollectiveProbe:
    timings = [Timing(kind, size, tuple(n * (1e-5 + size / rate) for n in (1, 2, 3, 9))) for size in SIZES]
    return summed_up(Collectives("gloo" if on_processor else "nccl", ranks, on_processor, tuple(timings)))


# nccl-tests, doc/PERFORMANCE.md: busbw = algbw × 2(n-1)/n, × (n-1)/n, or × 1. By hand, for algbw = 1.
BUS = {
    "all-reduce": {2: 1.0, 4: 1.5, 8: 1.75},
    "all-gather": {2: 0.5, 4: 0.75, 8: 0.875},
    "all-to-all": {2: 0.5, 4: 0.75, 8: 0.875},
    "broadcast": {2: 1.0, 4: 1.0, 8: 1.0},
    "send": {2: 1.0, 4: 1.0, 8: 1.0},
}


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("kind", BUS)
def test_bandwidths_are_those_of_nccl_tests(kind: str, ranks: int) -> None:
    row = timed(kind, ranks).rows[-1]
    assert (row.n, row.least_s, row.median_s) == (4, 1e-5 + row.size_bytes / 1e9, 2.5 * (1e-5 + row.size_bytes / 1e9))
    assert row.p90_s == pytest.approx((3 + 0.7 * 6) * row.least_s)
    assert row.algorithm_bytes_per_s == row.size_bytes / row.least_s
    assert row.bus_bytes_per_s == pytest.approx(row.algorithm_bytes_per_s * BUS[kind][ranks])


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_fit_gives_the_bandwidth_of_the_bus_whatever_the_number_of_ranks(ranks: int) -> None:
    (fit,) = timed("all-reduce", ranks, rate=1e9 / BUS["all-reduce"][ranks]).fits
    assert fit.refused is None
    assert fit.segments[-1].bus_bytes_per_s.value == pytest.approx(1e9, rel=1e-3)


def test_a_reduce_scatter_over_gloo_has_a_reason_and_no_figure() -> None:
    probe = summed_up(Collectives("gloo", 2, True, (), REFUSED["gloo"]))
    assert not probe.rows
    first, *_, last = (each.text for each in collective_blocks(probe) if isinstance(each, Line))
    assert "reduce-scatter: not measured, gloo sums the whole buffer on every rank" in first
    assert "not of a link" in last


def test_a_probed_link_goes_before_the_datasheet_and_a_refused_fit_or_a_processor_does_not() -> None:
    board = load_device("h100-sxm-80gb")
    probe = {
        "executor": {
            "accelerator.product": {"value": board.reported_names[0]},
            "accelerator.memory_bytes": {"value": 80e9},
        },
        "ceilings": [{"kind": "copy", "format": "", "value": 3e12}],
    }

    def link(collectives: CollectiveProbe | None) -> object:
        told = probe | ({"collectives": json.loads(json.dumps(encode(collectives)))} if collectives else {})
        return rates_of(probed_device(told), STORED["bf16"]).link_bytes_per_s

    quoted = link(None)
    assert link(timed("all-reduce", 2, rate=3e11)) == pytest.approx(3e11, rel=1e-2)
    assert link(timed("all-reduce", 2, rate=3e11, on_processor=True)) == quoted
    assert link(timed("all-gather", 2, rate=3e11)) == quoted
    torn = Timing("all-reduce", 1024, (1.0,)), *(Timing("all-reduce", size, (1e-5,)) for size in SIZES[1:])
    assert link(summed_up(Collectives("nccl", 2, False, torn))) == quoted


def test_the_table_of_a_probe_has_the_smallest_and_the_largest_size() -> None:
    (table,) = (each for each in collective_blocks(timed("all-reduce", 2)) if isinstance(each, Table))
    sizes = [cells[1].text for cells in table.rows]
    assert sizes[0] == "1.00 KiB"
    assert sizes[-1] == "16.0 MiB"
