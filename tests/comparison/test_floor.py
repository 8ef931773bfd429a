"""The noise floor: what two measurements of one thing differ by, and a difference within it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from sides import side
from twinlens.comparison.effect import floor_of
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.reporting.wording.comparison import effect_words

METRIC = "output_tokens_per_s"


def at(study: str, level: float, *asked: str) -> Side:
    """Three runs of one study, a tenth of a percent apart."""
    one = side(f"{study}-{level}", {METRIC: [level * each for each in (0.999, 1.0, 1.001)]}, asked=asked)
    return replace(one, runs=tuple(replace(run, folder=Path(study) / run.id) for run in one.runs))


def test_the_floor_is_what_two_measurements_differ_by_worked_by_hand() -> None:
    """Logs of −0.01, 0, 0.01: a deviation of 0.01 with 2 degrees of freedom; t is 4.303, times √2 is 6.085."""
    found = floor_of([at(f"s{place}", 100 * math.exp(log)) for place, log in enumerate((-0.01, 0.0, 0.01))])
    a = at("s9", 100)
    share, times = found.of(a, a, METRIC) or (0, 0)
    assert times == 3
    assert share == pytest.approx(math.expm1(0.06085), rel=0.01)


def test_two_measurements_and_measurements_of_two_specs_are_no_floor() -> None:
    a, b, c = at("s1", 100), at("s2", 101), at("s3", 99, "point.batch=4")
    for sides in ([a, b], [a, b, c], [a, a, b]):
        assert floor_of(sides).of(a, b, METRIC) is None
    assert floor_of([a, b, at("s4", 99)]).of(a, c, METRIC) is not None


def test_a_difference_within_the_floor_is_not_called_one() -> None:
    a, b, far = at("s1", 100), at("s2", 103, "point.batch=4"), at("s3", 150, "point.batch=4")
    floor = floor_of([at(f"n{place}", 100 * math.exp(log)) for place, log in enumerate((-0.01, 0.0, 0.01))])
    without, within, beyond = compare(a, b), compare(a, b, floor=floor), compare(a, far, floor=floor)
    assert [each.effects[0].apart for each in (without, within, beyond)] == [True, False, True]
    assert "no difference beyond the noise floor of this machine, 6.3 %" in effect_words(within.effects[0])
    assert [each.code for each in within.findings if each.code == "noise-floor"] == ["noise-floor"]
    unknown = compare(a, b, floor=floor_of([a, b]))
    assert "floor-not-measured" in [each.code for each in unknown.findings]
    assert unknown.effects[0].floor is None
