"""Repeats of a point: one evidence, one verdict, whatever their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosis.saturated import CEILINGS, decoded, rate, step, trained
from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.verdict import agreed, joined, verdict_of
from twinlens.record.finding import Finding


def point(seen: Sequence[Evidence]) -> Finding:
    return agreed(verdict_of(joined(seen)), seen)


def read_at(rate_bytes_per_s: float) -> Evidence:
    """Decode of 8 GB in a second, its run having measured this bandwidth."""
    return decoded(8e9, 8e9, ceilings=CEILINGS | {"read_bytes_per_s": rate(rate_bytes_per_s, "bytes/s")})


def test_a_ceiling_that_one_repeat_measured_too_low_decides_nothing_for_the_point() -> None:
    repeats = [read_at(10e9)] * 4 + [read_at(6.2e9)]  # the last is at 129 % of its ceiling
    assert verdict_of(repeats[-1]).numbers["why"] == "above-ceiling"
    found = point(repeats)
    assert (found.code, found.numbers["repeats"], found.numbers["agree"]) == ("bandwidth-bound", 5, 4)
    assert found.numbers["bandwidth_share"] == pytest.approx(0.8)
    assert found.numbers["confidence"] == "medium", "one of five differs"


def test_repeats_that_disagree_make_one_verdict_of_low_confidence() -> None:
    repeats = [read_at(12.5e9)] * 2 + [read_at(14e9)] * 2 + [read_at(12.4e9)]  # 64, 57 and 65 %
    found = point(repeats)
    assert found.code == "bandwidth-bound"
    assert (found.numbers["agree"], found.numbers["confidence"]) == (3, "low")


def test_parts_and_times_of_a_point_are_the_mean_of_its_repeats() -> None:
    a, b = trained(step(data=0.1, forward=0.9)), trained(step(data=0.3, forward=0.7))
    found = joined([a, replace(b, phases=(replace(b.phases[0], seconds=2.0),))])
    assert found.partition.share("data") == pytest.approx(0.2)
    assert list(found.partition.parts)[-1] == "unattributed"
    assert found.partition.count == 2
    assert found.phases[0].seconds == pytest.approx(1.5)


def test_one_run_is_its_own_point() -> None:
    one = read_at(10e9)
    assert joined([one]) is one
    assert point([one]) == verdict_of(one)


@given(st.permutations([8e9, 10e9, 11e9, 12e9, 13e9, 15e9]))
def test_the_order_of_repeats_changes_no_verdict(rates: list[float]) -> None:
    found, sorted_found = (point([read_at(each) for each in order]) for order in (rates, sorted(rates)))
    assert (found.code, found.numbers["agree"]) == (sorted_found.code, sorted_found.numbers["agree"])
    assert found.numbers["bandwidth_share"] == pytest.approx(sorted_found.numbers["bandwidth_share"])
