"""One curve of attainment through all runs of a search, on laws whose crossing is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.finding import Finding
from twinlens.record.search import Tried
from twinlens.spec.search import Search
from twinlens.spec.slo import Slo
from twinlens.stats.search.attainment import Attained, Crossing, bracket, crossing, telling
from twinlens.stats.search.limit import highest, next_by_curve
from twinlens.stats.search.trial import next_value, so_far

LIMIT, POWER, ALLOWED = 8.0, 12.0, 0.05
RATES = (2.0, 4.0, 6.5, 7.0, 7.5, 7.8, 8.2, 8.5, 9.0, 9.5)
SLO = Slo(ttft_s=0.5, quantile=0.95)


def missed(rate: float, base: float = 0.0) -> float:
    logit = math.log((ALLOWED - base) / (1 - ALLOWED)) + POWER * math.log(rate / LIMIT)
    return base + (1 - base) / (1 + math.exp(-logit))


def runs(rates: tuple[float, ...] = RATES, base: float = 0.0, requests: int = 20_000) -> list[Attained]:
    return [Attained(rate, missed(rate, base), requests, requests) for rate in rates]


def tried(rate: float, share: float, **more) -> Tried:
    shares = {"ttft_s": (share, 1000)}
    return replace(Tried("", rate, "inconclusive", "steady", Finding("", "notes"), 1.0, shares, 1000), **more)


@pytest.mark.parametrize("base", [0.0, 0.01])
def test_a_curve_that_is_known_is_crossed_where_it_is(base: float) -> None:
    found = crossing(runs(base=base), ALLOWED, 0.95)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < LIMIT < found.high < 1.05 * found.low
    assert found.rate_per_s == pytest.approx(LIMIT, rel=0.01)
    assert found.power == pytest.approx(POWER, rel=0.1)


def test_requests_that_depend_on_each_other_widen_the_interval() -> None:
    def width(independent: int) -> float:
        found = crossing([replace(run, independent=independent) for run in runs(requests=4000)], ALLOWED, 0.95)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        return math.log(found.high / found.low)

    assert width(4000) <= width(400) < width(80)


def test_an_interval_needs_runs_beside_the_limit_and_one_far_below_it() -> None:
    few, no_base = crossing(runs(RATES[:4] + RATES[-2:]), ALLOWED, 0.95), crossing(runs(RATES[2:]), ALLOWED, 0.95)
    assert few is not None
    assert no_base is not None
    assert (few.low, no_base.low) == (None, None)


def test_a_curve_that_is_flat_has_no_interval() -> None:
    """Nearly as many miss far below as are allowed: the server's own times, which no lower rate mends."""
    flat = [replace(run, missed=0.04 + 0.002 * run.rate_per_s) for run in runs()]
    found = crossing(flat, ALLOWED, 0.95)
    assert found is not None
    assert found.low is None


def test_a_limit_that_no_rate_leaves_is_not_crossed() -> None:
    assert bracket(runs((2.0, 4.0)), ALLOWED) == (4.0, None)
    assert bracket(runs((9.0, 12.0)), ALLOWED) == (None, 9.0)
    assert crossing(runs((2.0, 4.0)), ALLOWED, 0.95) is None


@given(st.floats(0.01, 1000))
def test_the_unit_of_the_rate_does_not_matter(unit: float) -> None:
    one = crossing(runs(), ALLOWED, 0.95)
    other = crossing([replace(run, rate_per_s=unit * run.rate_per_s) for run in runs()], ALLOWED, 0.95)
    assert one is not None
    assert other is not None
    assert other.rate_per_s == pytest.approx(unit * one.rate_per_s)
    assert other.high == pytest.approx(unit * (one.high or 0))


def test_the_rate_that_tells_most_is_on_the_side_with_fewer_runs() -> None:
    found = Crossing(8.0, 12.0)
    assert telling(runs((7.5, 7.8)), found) > 8.0
    assert telling(runs((8.2,)), found) < 8.0


def test_the_next_rate_goes_outward_then_between_then_beside() -> None:
    search = Search(start=2.0, most=64.0)
    known = [tried(2.0, 1.0)]
    assert next_by_curve(known, search, SLO, 0.95) == 4.0
    known += [tried(4.0, 1.0), tried(8.0, 0.8)]
    assert next_by_curve(known, search, SLO, 0.95) == pytest.approx(math.sqrt(32))
    known += [tried(6.0, 0.97)]
    ask = next_by_curve(known, search, SLO, 0.95)
    assert ask is not None
    assert 5.5 < ask < 8
    assert next_by_curve([tried(64.0, 1.0)], search, SLO, 0.95) is None  # nothing above may be asked


def test_a_backlog_that_grows_is_above_the_limit_whatever_its_requests_waited() -> None:
    known = [tried(4.0, 1.0), tried(8.0, 0.999, label="overload", verdict="fail")]
    ask = next_by_curve(known, Search(start=4.0), SLO, 0.95)
    assert ask is not None
    assert 4 < ask < 8


def test_a_search_ends_at_the_curve_through_all_its_runs() -> None:
    known = [tried(rate, 1 - missed(rate)) for rate in RATES]
    done = so_far(known, Search(start=2.0, width=0.3), SLO)
    assert done.outcome == "narrow"
    assert done.low is not None
    assert done.high is not None
    assert done.low < LIMIT < done.high
    assert next_value(known, Search(start=2.0, width=0.3), SLO) == done


def test_a_limit_that_is_far_from_being_left_does_not_widen_the_answer() -> None:
    both = Slo(ttft_s=0.5, tpot_s=0.1, quantile=0.95)
    known = [tried(rate, 1 - missed(rate)) for rate in RATES]
    alone = highest(known, Search(), SLO, 0.975)
    known = [replace(one, shares=one.shares | {"tpot_s": (1.0, 1000)}) for one in known]
    found = highest(known, Search(), both, 0.95)
    assert found is not None
    assert alone is not None
    assert (found.low, found.high) == (alone.low, alone.high)
