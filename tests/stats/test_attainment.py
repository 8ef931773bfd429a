"""One curve of attainment through all runs of a search, on laws whose crossing is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.beside import Tried
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.slo import Search, Slo
from twinlens.stats.search.limit import FEWEST, Attained, Curve, bracket, highest, next_by_curve
from twinlens.stats.search.trial import Done, answer, next_value, so_far

LIMIT, POWER, ALLOWED = 8.0, 12.0, 0.05
RATES = (2.0, 4.0, 6.5, 7.0, 7.5, 7.8, 8.2, 8.5, 9.0, 9.5)
SLO = Slo(ttft_s=0.5, quantile=0.95)


def missed(rate: float, base: float = 0.0) -> float:
    logit = math.log((ALLOWED - base) / (1 - ALLOWED)) + POWER * math.log(rate / LIMIT)
    return base + (1 - base) / (1 + math.exp(-logit))


def runs(rates: tuple[float, ...] = RATES, base: float = 0.0, requests: int = 20_000) -> list[Attained]:
    return [Attained(rate, missed(rate, base), requests) for rate in rates]


def ends(seen: list[Attained]) -> tuple[float, float]:
    curve = Curve.through(seen, ALLOWED)
    assert curve is not None
    return curve.quantile(0.025), curve.quantile(0.975)


def width(seen: list[Attained]) -> float:
    low, high = ends(seen)
    return math.log(high / low)


def tried(rate: float, share: float, **more) -> Tried:
    shares = {"ttft_s": (share, 1000)}
    return replace(Tried("", rate, "inconclusive", "steady", Finding("", "notes"), 1.0, shares, 1000), **more)


@pytest.mark.parametrize("base", [0.0, 0.01, 0.04])
def test_a_curve_that_is_known_is_crossed_where_it_is(base: float) -> None:
    low, high = ends(runs(base=base))
    assert low < LIMIT < high < 1.08 * low


def test_more_requests_and_more_runs_narrow_the_interval() -> None:
    assert width(runs(requests=20_000)) < width(runs(requests=1000))
    assert width(runs(requests=1000)) < width(runs(RATES[:4] + RATES[-2:], requests=1000))


def test_runs_that_scatter_more_than_a_queue_widen_the_interval() -> None:
    scattered = [replace(run, missed=run.missed * (3 if place % 2 else 1 / 3)) for place, run in enumerate(runs())]
    assert width(scattered) > 1.5 * width(runs())


def test_requests_that_come_in_bursts_widen_the_interval() -> None:
    bursts = [replace(run, gaps_cv=2.0) for run in runs(requests=1000)]
    assert width(bursts) > 1.2 * width(runs(requests=1000))
    assert width([replace(run, gaps_cv=0.0) for run in runs(requests=1000)]) == width(runs(requests=1000))


def test_what_misses_at_any_rate_leaves_less_to_know_the_limit_by() -> None:
    """Four of five misses that are allowed are the server's own times."""
    assert width(runs(base=0.04, requests=1000)) > 1.2 * width(runs(requests=1000))


def test_a_run_that_nears_overload_says_no_more_than_that_it_is_above() -> None:
    """Far above the limit queues leave any law: whether 60 or 100 % miss there moves nothing."""
    high = runs()
    assert ends([*high, Attained(16.0, 0.6, 1000)]) == ends([*high, Attained(16.0, 1.0, 1000)])


def test_a_few_misses_more_than_allowed_are_no_limit_left() -> None:
    few, many = Attained(2.0, 0.06, 200), Attained(2.0, 0.1, 200)  # 12 and 20 of 200 where 10 are allowed
    assert bracket([few, *runs((9.0,))], ALLOWED) == (2.0, 9.0)
    assert bracket([many, *runs((9.0,))], ALLOWED) == (None, 2.0)


def test_a_limit_that_no_rate_leaves_is_not_crossed() -> None:
    assert bracket(runs((2.0, 4.0)), ALLOWED) == (4.0, None)
    assert bracket(runs((9.0, 12.0)), ALLOWED) == (None, 9.0)
    assert Curve.through(runs((2.0, 4.0)), ALLOWED) is None


@given(st.floats(0.01, 1000))
def test_the_unit_of_the_rate_does_not_matter(unit: float) -> None:
    other = ends([replace(run, rate_per_s=unit * run.rate_per_s) for run in runs()])
    assert other == pytest.approx(tuple(unit * each for each in ends(runs())))


@given(
    st.lists(st.tuples(st.floats(0.5, 20), st.floats(0, 1), st.integers(2, 100_000)), min_size=1, max_size=12),
    st.sampled_from([0.5, 0.1, 0.05, 0.01, 0.001]),
)
def test_a_curve_is_found_through_any_runs(seen: list[tuple[float, float, int]], allowed: float) -> None:
    curve = Curve.through([Attained(*one) for one in seen], allowed)
    if curve is not None:
        assert 0 < curve.quantile(0.025) < curve.quantile(0.975)
        assert 0 < curve.telling() < math.inf


def test_the_rate_that_tells_most_is_beside_the_limit() -> None:
    """At a rate where nobody misses, or nearly all, a run tells nothing of where the limit is."""
    curve = Curve.through(runs(requests=1000), ALLOWED)
    assert curve is not None
    assert 0.8 * LIMIT < curve.telling() < 1.2 * LIMIT


def test_the_next_rate_goes_outward_then_between_then_beside() -> None:
    search = Search(start=2.0, most=64.0)
    known = [tried(2.0, 1.0)]
    assert next_by_curve(known, search, SLO) == 4.0
    known += [tried(4.0, 1.0), tried(8.0, 0.8)]
    assert next_by_curve(known, search, SLO) == pytest.approx(math.sqrt(32))
    known += [tried(6.0, 0.97)]
    ask = next_by_curve(known, search, SLO)
    assert ask is not None
    assert 5.5 < ask < 8
    assert next_by_curve([tried(64.0, 1.0)], search, SLO) is None  # nothing above may be asked


def test_a_backlog_that_grows_is_above_the_limit_whatever_its_requests_waited() -> None:
    known = [tried(4.0, 1.0), tried(8.0, 0.999, label="overload", verdict="fail")]
    ask = next_by_curve(known, Search(start=4.0), SLO)
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
    assert found == alone


def test_a_look_that_ends_a_search_early_asks_for_more_than_the_last_one() -> None:
    """Else a search would end at the first look at which chance made it seem narrow."""
    known = [tried(rate, 1 - missed(rate)) for rate in RATES]
    early, last = (so_far(known, Search(start=2.0, most_points=most), SLO) for most in (12, len(known)))
    assert early.low is not None
    assert early.high is not None
    assert last.low is not None
    assert last.high is not None
    assert early.low < last.low < LIMIT < last.high < early.high


def test_a_search_that_ends_wide_says_how_many_runs_would_narrow_it() -> None:
    """Runs on the law, so many as it says and each where it tells most, bring it to the width that is asked for."""
    known = [tried(rate, 1 - missed(rate), took_s=30.0) for rate in RATES]
    done = so_far(known, Search(start=2.0, width=0.05, most_points=len(known)), SLO)
    assert done.outcome == "budget"
    assert done.more is not None
    more, more_s = done.more
    assert more > 1
    assert more_s == 30 * more
    for _ in range(more):
        ask = next_by_curve(known, Search(start=2.0), SLO)
        assert ask is not None
        known.append(tried(ask, 1 - missed(ask)))
    found = highest(known, Search(), SLO, 0.95)
    assert found is not None
    assert found[1] / found[0] < 1.05
    assert so_far(known, Search(start=2.0, width=0.05, most_points=len(known)), SLO).more is None


def test_the_answer_says_the_budget_that_it_takes() -> None:
    wide = answer(Done(6.0, 9.0, "budget", 12, (8, 240.0)), Search())
    assert clause_of(wide).endswith("; search.most_points 20 (240 s more) is expected to narrow it to 20 %")
    assert clause_of(answer(Done(6.0, 9.0, "budget", 12), Search())).endswith("(95% confidence)")


def test_a_few_runs_have_no_interval_by_the_curve() -> None:
    known = [tried(rate, 1 - missed(rate)) for rate in RATES]
    assert highest(known[: FEWEST - 1], Search(), SLO, 0.95) is None
    assert highest([*known[:2], *known[-FEWEST + 3 :]], Search(), SLO, 0.95) is None
    assert highest([*known[:2], *known[-FEWEST + 2 :]], Search(), SLO, 0.95) is not None
