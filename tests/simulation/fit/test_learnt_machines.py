"""A machine is learnt from published runs of a real server, and runs that cannot teach say why."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import twinlens as tl
from twinlens.errors import BadInput
from twinlens.record.run import Run
from twinlens.simulation.fit.law import FittedLaw
from twinlens.simulation.fit.learn import UNTEACHABLE, learn, rules_of
from twinlens.simulation.fit.own_run import arrivals_of, served_times
from twinlens.simulation.fit.steps import recover
from twinlens.simulation.rules import Rules

RESULTS = Path(__file__).parents[3] / "docs" / "results"


@cache
def served(rate_per_s: float, repeat: int) -> Run:
    """A published run of vLLM on a processor: 66-token prompts, 16-token answers."""
    return next(
        run
        for run in _published("2026-11-21-served-epyc-2core")
        if run.spec.executor.kind == "vllm" and (run.spec.point.rate_per_s, run.spec.repeat) == (rate_per_s, repeat)
    )


@cache
def _published(name: str) -> tuple[Run, ...]:
    return tuple(tl.read(RESULTS / name))


@cache
def learnt() -> FittedLaw:
    return learn([served(8, 0)])


@pytest.mark.parametrize("rate_per_s", [2, 4])
def test_a_law_learnt_at_one_rate_predicts_others_of_the_same_server(rate_per_s: float) -> None:
    requests, law = served(rate_per_s, 0).requests, learnt()
    work, first_s, each_s = arrivals_of(requests)
    simulated = [served_times(work, law.law, law.noise, law.rules, seed) for seed in range(3)]
    assert np.mean([first for first, _ in simulated]) == pytest.approx(first_s.mean(), rel=0.08)
    assert np.mean([each for _, each in simulated]) == pytest.approx(each_s.mean(), rel=0.08)


def test_its_band_holds_a_server_started_afresh() -> None:
    other = recover(served(8, 1).requests, Rules())
    alone = np.isfinite(other.duration_s) & (other.rows == 1) & (other.tokens == 0)
    low, high = np.quantile([each.seconds(1, 74) for each in learnt().draws], [0.05, 0.95])
    assert low < other.duration_s[alone].mean() < high
    assert not 0.95 < other.duration_s[alone].mean() / learnt().law.seconds(1, 74) < 1.05


def test_constants_say_their_interval_their_steps_and_their_method() -> None:
    fixed = learnt().constants["fixed_s"]
    assert fixed.value == pytest.approx(7.3e-3, rel=0.05)
    assert fixed.low is not None
    assert fixed.high is not None
    assert 0.5 < fixed.low / fixed.value < 1 < fixed.high / fixed.value < 2.2
    assert fixed.n is not None
    assert fixed.n > 4000
    assert (fixed.origin, fixed.unit) == ("derived", "s")
    assert learnt().law.origin == "fitted"
    assert learnt().law.source == served(8, 0).id


def test_what_was_measured_has_its_reach_and_its_rules() -> None:
    law = learnt()
    assert law.beyond(prompt_tokens=66, answer_tokens=64, requests_per_s=16) == {
        "prompt_tokens": 1.0,
        "answer_tokens": 4.0,
        "requests_per_s": pytest.approx(2.0, rel=0.05),
    }
    assert law.rules == replace(Rules(), max_num_seqs=16, block_size=128, enable_prefix_caching=True)
    assert law.assumed == ("num_gpu_blocks", "max_model_len")
    assert any("one server" in each for each in law.doubts)


def test_a_server_that_says_nothing_has_assumed_rules() -> None:
    rules, assumed = rules_of(_published("2026-11-22-url-epyc-2core")[1])
    assert rules == Rules()
    assert "max_num_seqs" in assumed


def refusal(*runs: Run) -> str:
    with pytest.raises(BadInput) as caught:
        learn(runs)
    assert caught.value.code == UNTEACHABLE
    return str(caught.value)


def test_of_several_runs_those_that_cannot_teach_are_left_out_and_it_says_so() -> None:
    good, interrupted = served(8, 0), replace(served(4, 0), state="interrupted")
    law = learn([good, interrupted])
    assert (
        law.doubts[0] == f"1 of 2 runs are left out: {interrupted.id} teaches no law: it is interrupted, not finished"
    )
    assert law.law.parts == learn([good]).law.parts


def test_runs_that_are_too_short_alone_teach_together() -> None:
    halves = [replace(served(4, 0), id="a"), replace(served(4, 0), id="b")]
    steps = len(learn(halves[:1]).noise)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twinlens.simulation.fit.learn.FEWEST_STEPS", steps + 1)
        assert f"it has {steps} engine steps on end" in refusal(halves[0])
        assert learn(halves).servers == 1


def test_runs_that_cannot_teach_say_why() -> None:
    disturbed, short = _published("2026-11-21-served-epyc-2core")[0], _published("2026-11-22-url-epyc-2core")[0]
    good = served(8, 0)
    assert "name the folder" in refusal()
    assert "not valid (disturbed)" in refusal(disturbed)
    assert "not valid (too short)" in refusal(short)
    assert "interrupted, not finished" in refusal(replace(good, state="interrupted"))
    assert "no run of requests under load" in refusal(_published("2026-11-20-epyc-2core")[0])
    assert "differ in precision, executor, max_num_seqs" in refusal(good, _published("2026-11-22-url-epyc-2core")[1])
    server = good.sections.server
    assert server is not None
    several = replace(good, sections=replace(good.sections, server=replace(server, replicas=2)))
    assert "2 engines stand behind its address" in refusal(several)
