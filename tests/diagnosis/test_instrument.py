"""Counters of the board beside a run: their means, the four counters with them, and what contradicts theory.

The rows are written by hand in the form of telemetry; no GPU gave them.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from diagnosis.saturated import CEILINGS, decoded, rate, served, step, trained
from diagnosis.saturated import request as parts
from twinlens.diagnosis.counter import Counter
from twinlens.diagnosis.diagnosis import diagnose_evidence
from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.instrument import Instrument, instruments_of
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.samples import TELEMETRY_SCHEMA, Sample
from twinlens.reporting.wording.diagnosis import counter_words
from twinlens.reporting.wording.finding import advice_of, sentence_of
from twinlens.spec.precision import precision

S = 1_000_000_000


def table(*samples: Sample) -> pa.Table:
    return pa.Table.from_pylist([each.to_row() for each in samples], schema=TELEMETRY_SCHEMA)


def board(at_s: float, dram: float | None, source: str = "gpu:GPU-1") -> Sample:
    return Sample(int(at_s * S), source, dram_active=dram)


def counted(source: str = "NVML GPM", n: int = 40, **shares: float) -> tuple[Instrument, ...]:
    values = {name: Estimate(share, "1", f"{source}, by hand", "measured", n=n) for name, share in shares.items()}
    return (Instrument(source, values),)  # type: ignore[arg-type]


def contradictions(seen: Evidence) -> list[Finding]:
    return [each for each in diagnose_evidence("run", seen).findings if each.code == "instrument-contradicts"]


def counter(seen: Evidence, id: str) -> Counter:
    return next(each for each in diagnose_evidence("run", seen).counters if each.id == id)


def test_a_mean_is_over_the_time_of_the_window_and_not_over_readings() -> None:
    rows = table(board(0.5, None), board(1.0, 0.9), board(4.0, 0.3), board(5.0, 0.6), board(9.0, 0.1))
    (gpm,) = instruments_of(rows, 0.5, 6.0)
    # 0.5 s at 0.9, 3 s at 0.3, 1 s at 0.6, and 1 s of the reading that covers the end of the window
    assert gpm.values["dram_active"].value == pytest.approx((0.45 + 0.9 + 0.6 + 0.1) / 5.5)
    assert (gpm.source, gpm.values["dram_active"].n) == ("NVML GPM", 4)
    assert list(gpm.values) == ["dram_active"], "what no row has is absent, and not 0"


def test_boards_are_averaged_and_each_instrument_stands_alone() -> None:
    rows = [board(at, share, f"gpu:{name}") for at in (1, 2, 3) for name, share in (("a", 0.2 + at / 100), ("b", 0.6))]
    rows += [board(at, 0.5, "dcgm:a") for at in (1, 2, 3)]
    gpm, dcgm = instruments_of(table(*rows), 0.0, 3.0)
    assert gpm.values["dram_active"].value == pytest.approx((0.22 + 0.6) / 2)
    assert dcgm.source == "DCGM"
    assert dcgm.values["dram_active"].n == 1, "the same figure read three times is one reading"
    assert not dcgm.is_sure("dram_active")


def test_a_run_without_instruments_has_none() -> None:
    assert instruments_of(table(board(1.0, None), Sample(2 * S, "host")), 0.0, 3.0) == ()
    assert instruments_of(table(), 0.0, 3.0) == ()
    assert instruments_of(table(board(1.0, 0.5), board(2.0, 0.5)), 3.0, 4.0) == (), "none of the window"


def test_a_counter_takes_the_instrument_and_keeps_theory_beside_it() -> None:
    seen = replace(trained(step(forward=1.0)), instruments=counted(tensor_active=0.72, dram_active=0.12))
    engines = counter(seen, "matrix-engines")
    assert (engines.source, engines.confidence, engines.value.value) == ("NVML GPM", "high", 0.72)
    assert engines.beside["by_theory"].value == pytest.approx(70)
    assert encode(engines)["source"] == "NVML GPM"
    assert counter_words(engines) == (
        "tensor pipes busy 72.0% by NVML GPM over the window (step: 70.0 FLOP/byte by theory, ridge 10.0 FLOP/byte, "
        "70.0% of ceiling)"
    )
    assert counter(seen, "bandwidth").beside["by_theory"].value == pytest.approx(1e9)
    assert counter(seen, "batching").source == "rows"
    assert counter(replace(seen, instruments=()), "bandwidth").source == "analytic bound"


def test_copies_at_the_boundary_are_no_longer_absent_and_rates_are_no_shares() -> None:
    values = {f"pcie_{way}_bytes_per_s": rate(speed, "bytes/s") for way, speed in (("rx", 3e9), ("tx", 1e9))}
    seen = replace(trained(step(forward=1.0)), instruments=(Instrument("DCGM", values),))
    transfer = counter(seen, "transfer")
    assert (transfer.value.value, transfer.source, transfer.confidence) == (3e9, "DCGM", "low")
    assert counter_words(transfer) == "3.00 GB/s to the board by DCGM over the window (1.00 GB/s from it)"


@pytest.mark.parametrize(
    ("moved", "share", "which"),
    [(1e9, 0.9, ["more"]), (1e9, 0.41, ["more"]), (1e9, 0.39, []), (2.5e9, 0.45, []), (1e9, 0.11, [])],
)
def test_dram_that_is_far_busier_than_its_least_bytes_is_a_finding(
    moved: float, share: float, which: list[str]
) -> None:
    seen = replace(trained(step(forward=1.0), moved=moved), instruments=counted(dram_active=share))
    assert [each.numbers["which"] for each in contradictions(seen)] == which


def test_the_finding_says_who_saw_what_and_what_theory_needs() -> None:
    (found,) = contradictions(replace(trained(step(forward=1.0)), instruments=counted(dram_active=0.9)))
    assert sentence_of(found) == (
        "NVML GPM saw DRAM 90 % busy, and the work by theory needs 10 %: most of what the board did there is work that "
        "theory leaves out."
    )
    assert "--instrument profiler" in advice_of(found)
    assert found.evidence["dram_active"].value == 0.9


def test_bytes_that_the_board_did_not_see_are_a_finding_too() -> None:
    (found,) = contradictions(replace(decoded(1e9, 9e9), instruments=counted(dram_active=0.2)))
    assert (found.subject, found.numbers["which"]) == ("dram", "less")
    # of a request of one second 0.95 s are decode steps of 9 GB/s, and prefill moved 0.1 GB, under 10 GB/s
    assert found.numbers["bound"] == pytest.approx(0.865)
    assert "another than theory takes it to be" in sentence_of(found)


def test_the_datasheet_is_what_shares_are_of_where_it_is_known() -> None:
    sheet = CEILINGS | {"datasheet_bytes_per_s": rate(20e9, "bytes/s")}
    seen = replace(decoded(1e9, 9e9, ceilings=sheet), instruments=counted(dram_active=0.44))
    assert contradictions(seen) == [], "9 GB/s are 45 % of 20 GB/s, and not 90 % of 10 GB/s"


def test_idle_tensor_pipes_contradict_products_that_are_of_theirs_only() -> None:
    seen = replace(trained(step(forward=1.0), 70e9), instruments=counted(tensor_active=0.0))
    assert contradictions(replace(seen, precision=precision("fp32"))) == []
    (found,) = contradictions(replace(seen, precision=precision("bf16")))
    assert found.subject == "tensor pipes"


@pytest.mark.parametrize("case", ["served", "two boards", "no ceiling"])
def test_nothing_is_said_where_theory_has_no_bound_of_one_board(case: str) -> None:
    seen = {
        "served": served(parts(decode=1.0)),
        "two boards": trained(step(forward=1.0), devices=2),
        "no ceiling": trained(step(forward=1.0), ceilings={}),
    }[case]
    assert contradictions(replace(seen, instruments=counted(dram_active=0.99))) == []
