"""The search on known laws: what it claims, finds and states, whatever kills it and however the machine drifts."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from benchmarks.coverage.tuning import GRID, WORLDS, Laws, World, bound, proof_pairs, searched, studied

from each import each
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.tuning.ledger import Begun, Ledger, Margin, Standing, Trial, read_ledger
from twinlens.tuning.proof import judged, ratio_of_pairs
from twinlens.tuning.search import Search, Seen, Up, search

SEEDS = range(6)
NOTHING, ONE = WORLDS[0], WORLDS[4]
BY_CHANCE = World("nothing differs", NOTHING.gain, sampler="random")


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


class Killed(BaseException):
    """The process is gone."""


def work_of(ledger: Ledger, laws: Laws, trials: int = 50, **others: object) -> Search:
    of = bound("random", trials)
    return Search(of, ledger, laws, lambda settings: "", lambda standing, words: None, **others)  # type: ignore[arg-type]


def begun(folder: Path) -> Ledger:
    ledger = Ledger(folder)
    if ledger.is_new:
        ledger.add(Begun("x", "", ""))
    return ledger


def test_no_gain_is_claimed_where_nothing_differs() -> None:
    claimed = sum(studied(BY_CHANCE, seed).claimed for seed in SEEDS)
    assert claimed <= 1, "5 % of tunings may claim one; the page of coverage has 200 of them"


def test_a_setting_worth_5_percent_is_found_at_half_the_slices_of_a_grid() -> None:
    found = [studied(ONE, seed) for seed in SEEDS]
    assert sum(each.found for each in found) >= 4
    assert np.mean([each.slices for each in found]) <= 0.5 * 50 * GRID


def test_the_stated_gain_holds_the_truth_as_often_as_it_says() -> None:
    truth = math.log(1.05)
    held = 0
    for seed in range(600):
        ratio = ratio_of_pairs(proof_pairs(truth, np.random.default_rng(seed)))
        held += (ratio.low or 0) <= 1.05 <= (ratio.high or 0)
    assert 0.92 <= held / 600 <= 0.98


def test_a_drift_of_the_machine_changes_no_decision(tmp_path: Path) -> None:
    """All values of a round are taken within a moment of each other."""

    class Slowing(Laws):
        def round(self, trial: Trial, number: int, place: int) -> Seen:
            seen = super().round(trial, number, place)
            assert seen.value is not None
            return Seen(seen.value * (1 - 0.1 * number / 60), seen.spent_s)

    ends = []
    for name, kind in (("still", Laws), ("slowing", Slowing)):
        (tmp_path / name).mkdir()
        standing = search(work_of(begun(tmp_path / name), kind(ONE, 3)))
        ends.append([(trial.settings, trial.outcome, len(trial.values)) for trial in standing.trials])
    assert ends[0] == ends[1]


def without_times(standing: Standing) -> list[object]:
    return [(trial.settings, trial.why, trial.values, trial.outcome, trial.gap) for trial in standing.trials]


def test_a_hundred_kills_resume_to_the_same_ledger(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = search(work_of(begun(tmp_path / "whole"), Laws(ONE, 1), trials=24))
    (tmp_path / "killed").mkdir()
    kills = 0
    for attempt in range(2000):
        left = [1 + attempt % 4]

        def falling(left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                raise Killed

        ledger = begun(tmp_path / "killed")
        if ledger.standing.phase == "over" or kills == 100:
            break
        try:
            search(work_of(ledger, Laws(ONE, 1, falling), trials=24))
        except Killed:
            kills += 1
    assert kills == 100
    again = search(work_of(begun(tmp_path / "killed"), Laws(ONE, 1), trials=24))
    assert without_times(again) == without_times(whole)
    assert (again.leader, again.rounds, again.phase) == (whole.leader, whole.rounds, whole.phase)


class Failing(Laws):
    """Some candidates do not come up, and some end in their second round."""

    def start(self, trial: Trial) -> Up:
        if trial.number == 2:
            raise ExecutorFailed("a server ended while it was starting", code="TL303")
        if trial.number == 3:
            raise ExecutorFailed("out of memory", code="TL309")
        if trial.number == 4:
            raise BadInput("this runtime has no such setting", code="TL207")
        return super().start(trial)

    def round(self, trial: Trial, number: int, place: int) -> Seen:
        if trial.number == 5 and len(trial.values) == 1:
            raise ExecutorFailed("given up", code="TL306")
        if trial.number == 6:
            return Seen(None, 1.0, why="nothing was steady")
        return super().round(trial, number, place)


def test_what_fails_costs_budget_and_stands_in_the_ledger(tmp_path: Path) -> None:
    standing = search(work_of(begun(tmp_path), Failing(BY_CHANCE, 0), trials=12))
    assert [standing.trials[each].outcome for each in range(2, 7)] == [
        "failed to start", "out of memory", "refused", "timed out", "no value",
    ]  # fmt: skip
    assert 7 < standing.counted <= 12
    assert "no such setting" in standing.trials[4].reason


def test_a_default_that_fails_ends_the_tuning_with_its_reason(tmp_path: Path) -> None:
    class Dead(Laws):
        def start(self, trial: Trial) -> Up:
            raise ExecutorFailed("there is no such program", code="TL303")

    with pytest.raises(ExecutorFailed, match=r"the default, with which every candidate is compared, fails: there is"):
        search(work_of(begun(tmp_path), Dead(BY_CHANCE, 0)))


class Limited(Laws):
    """The fast candidates break a constraint."""

    def margins(self, trial: Trial, default: Trial) -> tuple[Margin, ...]:
        breaks = trial.settings.get("max_sequences") == 64
        return (Margin("ttft_s_p90", 0.5, 0.9 if breaks else 0.2, None, None, not breaks),)


def test_a_candidate_that_breaks_a_constraint_never_leads(tmp_path: Path) -> None:
    standing = search(work_of(begun(tmp_path), Limited(ONE, 2), trials=30))
    assert standing.trials[standing.leader].settings.get("max_sequences") != 64
    assert "constraint" in {trial.outcome for trial in standing.trials}


class Crowded(Laws):
    """The default breaks a constraint, and of the candidates only slow ones keep it."""

    def round(self, trial: Trial, number: int, place: int) -> Seen:
        seen = super().round(trial, number, place)
        slower = trial.settings.get("max_sequences") == 8
        return Seen(seen.value * (0.8 if slower else 1.0) if seen.value else None, seen.spent_s)

    def margins(self, trial: Trial, default: Trial) -> tuple[Margin, ...]:
        keeps = trial.settings.get("max_sequences") == 8
        return (Margin("ttft_s_p90", 0.5, 0.2 if keeps else 0.9, None, None, keeps),)


def test_where_the_default_breaks_a_limit_the_best_that_keeps_it_leads_though_it_is_slower(tmp_path: Path) -> None:
    standing = search(work_of(begun(tmp_path), Crowded(BY_CHANCE, 2), trials=40))
    assert standing.trials[standing.leader].settings.get("max_sequences") == 8


def test_what_cannot_run_is_left_out_before_it_costs_anything(tmp_path: Path) -> None:
    laws = Laws(BY_CHANCE, 0)
    of = bound("grid", 20)
    work = Search(of, begun(tmp_path), laws,
                  lambda settings: "it does not fit" if settings.get("max_sequences") == 128 else "",
                  lambda standing, words: None)  # fmt: skip
    standing = search(work)
    out = [trial for trial in standing.trials if trial.outcome == "left out"]
    assert out
    assert all(trial.settings["max_sequences"] == 128 and not trial.values for trial in out)
    assert 15 <= standing.counted <= 20


@pytest.mark.parametrize(("name", "hours"), [("wall_h", 0.01), ("device_h", 0.02)])
def test_a_budget_of_hours_ends_the_search_and_is_said(tmp_path: Path, name: str, hours: float) -> None:
    of = bound("random", 50)
    budget = of.tune.budget.model_copy(update={name: hours})
    of = of.__class__(of.study, of.tune.model_copy(update={"budget": budget}), of.objective, of.space)
    work = Search(of, begun(tmp_path), Laws(BY_CHANCE, 0), lambda settings: "", lambda standing, words: None, 2)
    standing = search(work)
    assert "hours are used" in standing.why_over
    assert standing.spent_s < 3600 * 0.01 + 20
    assert "budget" in {trial.outcome for trial in standing.trials}


def test_the_default_is_in_every_round(tmp_path: Path) -> None:
    standing, _ = searched(ONE, 5, bound("random", 20), tmp_path)
    assert sorted(standing.trials[0].values) == list(range(standing.rounds))
    assert len(read_ledger(tmp_path)) > standing.rounds


@each([(1.06, 0.001, 1, "gain"), (0.94, 0.001, 1, "loss"), (0.94, 0.001, -1, "gain"), (1.0, 0.02, 1, "no gain shown")])
def test_the_verdict_is_by_the_interval_and_the_way_that_the_objective_counts(
    ratio: float, noise: float, sign: int, verdict: str
) -> None:
    rng = np.random.default_rng(4)
    pairs = [(1.0, ratio * float(np.exp(rng.normal(0, noise)))) for _ in range(5)]
    of = bound()
    objective = of.objective.__class__("ttft_s_p90", "TTFT p90", "s", sign, in_turns=False)
    found = judged(of.__class__(of.study, of.tune, objective, of.space), ratio_of_pairs(pairs))
    assert found.verdict == verdict
    assert found.smallest is not None
    assert found.smallest > 0
