"""Laws are learnt from steps with intervals that hold the truth, and bands that hold servers started afresh."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from benchmarks.simulator.engine_rows import rows

from twinlens.simulation.fit.law import FittedLaw, Setting, Span, fitted
from twinlens.simulation.fit.learn import observed_of
from twinlens.simulation.fit.least import Observed, least_squares
from twinlens.simulation.fit.steps import recover
from twinlens.simulation.law import Affine, StepLaw
from twinlens.simulation.rules import Rules

TRUTH = {"fixed_s": 7e-3, "row_s": 3e-4, "context_s": 2e-6, "token_s": 1e-4, "pair_s": 1e-7, "before_s": 5e-3}
RULES = Rules(max_num_batched_tokens=512)
SETTING = Setting("here", RULES, (), {}, 0.0, ())


@cache
def server(seed: int, *, noise: float = 0.3, alike: bool = False) -> Observed:
    """What one server with the constants of `TRUTH` shows."""
    rng, count = np.random.default_rng(seed), 120
    *affine, before_s = TRUTH.values()
    law = StepLaw((Affine(*affine),), before_s=before_s)
    prompts = np.full(count, 66) if alike else rng.integers(20, 600, count)
    arrival_s = np.cumsum(rng.exponential(0.3, count))
    requests = rows(arrival_s, prompts, rng.integers(2, 80, count), law, RULES, cv=noise, seed=seed)
    return observed_of(requests, recover(requests, RULES, before_s), RULES, str(seed))


def slower(observed: Observed, level: float) -> Observed:
    """The same server with all that it does `level` times as long."""
    return Observed(observed.server, observed.work, observed.seconds * level)


def law_of_servers(*observed: Observed) -> FittedLaw:
    return fitted(least_squares(observed), observed, SETTING)


def test_intervals_of_one_server_hold_its_constants_as_often_as_they_say() -> None:
    held = []
    for seed in range(6):
        law = law_of_servers(server(seed))
        for name, truth in TRUTH.items():
            low, high = law.constants[name].low, law.constants[name].high
            held.append(low is not None and high is not None and low <= truth <= high)
    assert np.mean(held) > 0.9


def test_constants_are_those_of_the_engine_where_steps_do_not_scatter() -> None:
    constants = law_of_servers(server(0, noise=1e-3)).constants
    for name in ("fixed_s", "row_s", "context_s", "token_s", "pair_s"):
        assert constants[name].value == pytest.approx(TRUTH[name], rel=0.1), name
    assert constants["before_s"].value == pytest.approx(5e-3, abs=2e-3)


def test_noise_has_mean_one_and_keeps_its_spells() -> None:
    noise = law_of_servers(server(1)).noise
    assert noise.mean() == pytest.approx(1.0)
    assert noise.std() == pytest.approx(0.3, abs=0.08)
    assert np.corrcoef(noise[1:], noise[:-1])[0, 1] > 0.6


def test_a_step_of_no_length_spoils_no_law() -> None:
    # Two chunks of one request that were read at once have one time, and a step between them.
    observed = server(1)
    seconds = observed.seconds.copy()
    seconds[100] = 0.0
    constants = least_squares([Observed("x", observed.work, seconds)]).constants
    assert constants == pytest.approx(least_squares([observed]).constants, rel=0.1)


def test_what_prompts_of_one_length_cannot_tell_is_not_known_and_says_why() -> None:
    law = law_of_servers(server(2, alike=True))
    assert law.constants["pair_s"].value is None
    assert "rose and fell with" in law.constants["pair_s"].lacks
    assert law.law.parts[0].pair_s == 0


@pytest.mark.parametrize("spread", [0.02, 0.15])
def test_a_law_of_three_servers_covers_a_fourth(spread: float) -> None:
    rng, inside = np.random.default_rng(5), []
    for _ in range(4):
        levels = np.exp(spread * rng.standard_normal(4))
        law = law_of_servers(*(slower(server(i), level) for i, level in enumerate(levels[:3])))
        inside.append(covers(law, levels[3] * (TRUTH["fixed_s"] + 4 * TRUTH["row_s"] + 800 * TRUTH["context_s"])))
    assert sum(inside) >= 3


def covers(law: FittedLaw, step_s: float) -> bool:
    """Whether the 90 % band of a step of four rows with 800 tokens of context has `step_s` in it."""
    low, high = np.quantile([each.seconds(4, 800) for each in law.draws], [0.05, 0.95])
    return bool(low <= step_s <= high)


def test_few_servers_widen_by_an_assumed_spread_and_three_by_their_own() -> None:
    alone, three = law_of_servers(server(0)), law_of_servers(*map(server, range(3)))
    assert alone.spread == pytest.approx(0.12)
    assert three.spread < 0.06
    assert (alone.servers, three.servers) == (1, 3)


def test_how_far_a_question_lies_outside_is_a_factor() -> None:
    span = Span(2.0, 8.0)
    assert [span.beyond(asked) for asked in (1, 2, 5, 8, 32)] == [2, 1, 1, 1, 4]
    assert Span(0.0, 0.0).beyond(1) == float("inf")


def test_single_waits_have_the_mean_of_the_law() -> None:
    law = law_of_servers(server(0))
    assert law.before_each_s.mean() == pytest.approx(law.law.before_s)
    assert law.before_each_s.min() >= 0


def test_draws_share_out_what_two_terms_that_rise_together_have_in_common() -> None:
    # Prompts and answers of one length: context rises with rows, so their steps are known and their terms are not.
    law = law_of_servers(server(3, alike=True))
    assert all(each.parts[0].context_s > 0 for each in law.draws)
    assert all(each.parts[0].row_s > 0 for each in law.draws)
    assert np.median([each.seconds(3, 300) for each in law.draws]) == pytest.approx(law.law.seconds(3, 300), rel=0.1)
