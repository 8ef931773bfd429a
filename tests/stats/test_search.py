"""The search for the highest rate within an SLO, on systems whose truth is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.spec.slo import Standing
from twinlens.stats.search.trial import Done, SearchRule, Trial, next_rate, pareto

rates = st.floats(0.05, 5000)


def search(system, rule: SearchRule) -> tuple[Done, list[Trial]]:
    history: list[Trial] = []
    while not isinstance(ask := next_rate(history, rule), Done):
        assert rule.least <= ask <= rule.most
        history.append(Trial(ask, system(ask)))
    return ask, history


def sharp(limit: float):
    return lambda rate: "pass" if rate < limit else "fail"


def test_it_brackets_by_doubling_and_then_halves_the_ratio() -> None:
    done, history = search(sharp(10), SearchRule(start=2, width=0.1))
    assert [trial.rate_per_s for trial in history[:4]] == [2, 4, 8, 16]
    assert history[4].rate_per_s == pytest.approx(128**0.5)  # √(8 · 16) fails
    assert history[5].rate_per_s == pytest.approx((8 * 128**0.5) ** 0.5)
    assert done.outcome == "narrow"
    assert done.low is not None
    assert done.high is not None
    assert done.low < 10 <= done.high <= done.low * 1.1


def test_it_goes_down_where_the_first_rate_fails() -> None:
    done, history = search(sharp(0.3), SearchRule(start=2))
    assert [trial.rate_per_s for trial in history[:4]] == [2, 1, 0.5, 0.25]
    assert done.low is not None
    assert done.low < 0.3


def test_a_limit_beyond_the_range_is_said_and_not_guessed() -> None:
    top, _ = search(sharp(1e9), SearchRule(start=2, most=64))
    assert (top.outcome, top.low, top.high) == ("all", 64, None)
    bottom, _ = search(sharp(0), SearchRule(start=2, least=0.5))
    assert (bottom.outcome, bottom.low, bottom.high) == ("none", None, 0.5)


def test_a_spent_budget_gives_the_interval_so_far() -> None:
    done, history = search(sharp(10), SearchRule(start=2, width=0.001, most_trials=5))
    assert len(history) == done.trials == 5
    assert (done.outcome, done.low) == ("budget", 8)
    assert done.high == pytest.approx(128**0.5)
    nothing, _ = search(sharp(10), SearchRule(start=2, most_trials=2))
    assert (nothing.outcome, nothing.low, nothing.high) == ("budget", 4, None)


def test_an_unclear_rate_is_tried_again_and_then_bounds_the_answer() -> None:
    def system(rate: float) -> Standing:
        return "pass" if rate < 9 else "fail" if rate > 12 else "inconclusive"

    done, history = search(system, SearchRule(start=2, width=0.05, tries=2, most_trials=40))
    asked = [trial.rate_per_s for trial in history]
    assert all(asked.count(trial.rate_per_s) == 2 for trial in history if trial.standing == "inconclusive")
    assert done.outcome == "unclear"
    assert done.low is not None
    assert done.high is not None
    assert done.low < 9 < 12 < done.high
    assert (9 / done.low, done.high / 12) < (1.06, 1.06)


def test_one_bad_run_below_a_good_one_is_measured_again() -> None:
    seen: list[float] = []

    def unlucky(rate: float) -> Standing:
        seen.append(rate)
        return "fail" if rate == 4 and seen.count(4) == 1 else sharp(10)(rate)

    done, history = search(unlucky, SearchRule(start=8, width=0.1, tries=3))
    assert done.low is not None
    assert done.low > 8  # 8 passes first, so 4 is never asked
    history = [Trial(8, "pass"), Trial(4, "fail")]
    assert next_rate(history, SearchRule(start=8, tries=3)) == 4
    history += [Trial(4, "pass")]
    assert next_rate(history, SearchRule(start=8, tries=3)) == 4  # one of each says nothing yet
    history += [Trial(4, "pass")]
    assert next_rate(history, SearchRule(start=8, tries=3)) == 16


@given(rates, rates, st.floats(0.01, 0.5))
def test_a_sharp_limit_is_always_inside_the_interval(limit: float, start: float, width: float) -> None:
    rule = SearchRule(start=start, width=width, most_trials=64)
    done, history = search(sharp(limit), rule)
    assert done.outcome == "narrow"
    assert done.low is not None
    assert done.high is not None
    assert done.low < limit <= done.high <= done.low * (1 + width) * (1 + 1e-12)
    assert len({trial.rate_per_s for trial in history}) == len(history)


@given(rates, st.integers(1, 40), st.integers(1, 4), st.lists(st.sampled_from(["pass", "fail", "inconclusive"])))
def test_any_system_whatever_it_says_ends_within_the_budget(start, most_trials, tries, answers) -> None:
    said = iter(answers)
    rule = SearchRule(start=start, most_trials=most_trials, tries=tries)
    done, history = search(lambda rate: next(said, "pass" if rate < 7 else "fail"), rule)
    assert len(history) <= most_trials
    assert done.trials == len(history)
    if done.low is not None and done.high is not None:
        assert done.low < done.high
    assert done.outcome


@given(st.floats(1, 500), st.randoms(use_true_random=False))
def test_a_noisy_limit_is_found_to_within_its_noise(limit: float, random) -> None:
    """Within 10 % of the limit a run may say anything; beyond, it is right. Nothing worse than that comes out."""

    def system(rate: float) -> Standing:
        if 0.9 * limit < rate < 1.1 * limit:
            return random.choice(["pass", "fail", "inconclusive"])
        return sharp(limit)(rate)

    done, _ = search(system, SearchRule(start=3, most_trials=80, tries=3))
    assert done.outcome in ("narrow", "unclear")
    assert done.low is not None
    assert done.high is not None
    assert done.low < 1.1 * limit
    assert done.high > 0.9 * limit
    assert done.low > 0.8 * limit
    assert done.high < 1.25 * limit


@given(st.lists(st.sampled_from(["pass", "fail", "inconclusive"]), max_size=12), rates)
def test_the_same_history_gives_the_same_answer(answers, start) -> None:
    rule = SearchRule(start=start)
    history: list[Trial] = []
    for answer in answers:
        ask = next_rate(history, rule)
        assert ask == next_rate(tuple(history), rule)
        if isinstance(ask, Done):
            break
        history.append(Trial(ask, answer))


@pytest.mark.parametrize(
    "bad", [{"start": 0}, {"start": 1, "width": 0}, {"start": 1, "factor": 1}, {"start": 1, "tries": 0}]
)
def test_a_rule_that_cannot_work_is_refused(bad) -> None:
    with pytest.raises(ValueError, match="a search needs"):
        SearchRule(**bad)


def test_the_pareto_set_is_what_nothing_beats() -> None:
    points = [(100, 10), (80, 30), (80, 20), (60, 30), (50, 50), (100, 10), (10, 49)]
    assert pareto(points) == (0, 1, 4)
    assert pareto([]) == ()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_every_point_off_the_pareto_set_is_beaten_or_equalled_and_none_on_it_is(points) -> None:
    kept = pareto(points)
    chosen = {points[index] for index in kept}
    assert len(chosen) == len(kept)

    def beats(a, b) -> bool:
        return a[0] >= b[0] and a[1] >= b[1] and a != b

    assert not any(beats(a, b) for a in points for b in chosen)
    assert all(point in chosen or any(beats(a, point) for a in chosen) for point in points)
