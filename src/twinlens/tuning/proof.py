"""The proof of a winner: measured again beside the default, with a new seed and traffic, in fresh processes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from twinlens.executors.registry import capabilities
from twinlens.measurement.event import Watch
from twinlens.measurement.search import measure_search
from twinlens.measurement.study import measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.record.sections import ComplianceTest
from twinlens.record.store import find_runs
from twinlens.spec.study import Study
from twinlens.stats.estimator.interval import t_quantile
from twinlens.stats.paired.ratio import FEWEST_BLOCKS, by_turns
from twinlens.stats.row_kind import row_kind
from twinlens.stats.summary.group import Group, group
from twinlens.tuning.bound import WITHIN_SLO, Bound
from twinlens.tuning.ledger import Margin
from twinlens.tuning.margin import margins_of
from twinlens.tuning.runner import highest_rate, mark
from twinlens.units import RATIO, REQUESTS_PER_S

FOLDER = "proof"
NEW_SEED = 7919
"""Added to the seed of the search: the winner meets traffic and data that it was not chosen by."""
FEWEST_PAIRS = 3
Verdict = Literal["gain", "no gain shown", "loss", "not known"]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the winner came to. `ratio`: tuned over default; `default`, `tuned`: the objective of each.

    `smallest`: the smallest relative gain that would have shown. `margins`: of the winner, measured again. `because`:
    what kept the ratio from being known.
    """

    verdict: Verdict
    ratio: Estimate
    default: Estimate
    tuned: Estimate
    smallest: float | None
    margins: tuple[Margin, ...] = ()
    because: tuple[Finding, ...] = ()


def proof_study(
    bound: Bound, settings: Mapping[str, Any], repeats: int | None = None, *, round_s: float = 0.0
) -> Study:
    """The study of the proof: the default and the winner, `repeats` times each, by default `proof.repeats`.

    `round_s`: how long a round of the search took. A slice is as long here, and a repeat of fewer than `FEWEST_BLOCKS`
    proves nothing: it works at least half as long again as they take.
    """
    study, tune = bound.study, bound.tune
    paths = {bound.space[name][0].path: (value,) for name, value in settings.items()}
    turns: dict[str, Any] = {}
    if bound.objective.in_turns:
        least_s = math.ceil(1.5 * FEWEST_BLOCKS * round_s)
        turns = {"pairing": "slices", "guards": False, "duration_s": max(study.protocol.duration_s, float(least_s))}
    protocol = study.protocol.model_copy(
        update={"seed": study.protocol.seed + NEW_SEED, "repeats": repeats or tune.proof.repeats, **turns}
    )
    update: dict[str, Any] = {
        "tune": None,
        "protocol": protocol,
        "name": f"{study.name[:50]}-proof",
        "variants": ({}, paths),
    }
    return study.model_copy(update=update)


GUARDED = "guarded"


def guarded_study(bound: Bound, settings: Mapping[str, Any]) -> Study | None:
    """The winner once more, alone, with the guards that candidates in turns cannot be asked; None where the bound asks
    for none, where it is no server, or where each round was a run that may have guards of its own."""
    study = bound.study
    by_text = capabilities(study.executor.kind).prompts == "text"
    if not (bound.tune.proof.guards and study.lens == "inference" and by_text and bound.objective.in_turns):
        return None
    update = {"seed": study.protocol.seed + NEW_SEED, "repeats": 1, "guards": True, "pairing": "none"}
    protocol = study.protocol.model_copy(update=update)
    paths = {bound.space[name][0].path: (value,) for name, value in settings.items()}
    name = f"{study.name[:48]}-guarded"
    return study.model_copy(update={"tune": None, "protocol": protocol, "name": name, "sweep": paths})


def guards_in(place: Path) -> tuple[ComplianceTest, ...]:
    """The rulings on the winner; none where it was not asked."""
    runs = [run for run in find_runs(place) if run.is_finished] if any(place.glob("*/*/run.json")) else []
    return tuple(guard for run in runs for guard in run.sections.guards)


def prove_study(bound: Bound, settings: Mapping[str, Any], study: Study, place: Path, watch: Watch) -> None:
    """Measure a study of the default and the winner into `place`, or go on with it; one that is there stays."""
    if bound.objective.metric == WITHIN_SLO:
        for repeat in range(study.protocol.repeats):
            for name in ("default", "tuned") if repeat % 2 else ("tuned", "default"):
                measure_search(_searching(study, name, repeat), place / f"{repeat}-{name}", watch)
        return
    outcome = measure_study(study, place, watch, shown=False)
    for run in outcome.runs:
        if run.sections.tuned is None:
            is_default = _is_default(study, run)
            mark(run.folder, bound, {} if is_default else settings, "default" if is_default else "tuned")


def _searching(study: Study, name: str, repeat: int) -> Study:
    variant = study.variants[0 if name == "default" else 1]
    protocol = study.protocol.model_copy(update={"seed": study.protocol.seed + repeat})
    return study.model_copy(update={"variants": (), "sweep": variant, "protocol": protocol})


def _is_default(study: Study, run: Run) -> bool:
    return run.spec.point_fingerprint() == study.candidate({}).point_fingerprint()


def proved_in(bound: Bound, study: Study, place: Path, level: float = 0.95) -> Proof | None:
    """What such a study came to; None where it has not begun."""
    if bound.objective.metric == WITHIN_SLO:
        return _of_searches(bound, place, level) if place.is_dir() else None
    if not place.is_dir() or not any(place.glob("*/*/run.json")):
        return None
    sides = _sides(study, [run for run in find_runs(place) if run.is_finished])
    if any(not side for side in sides):
        return _unknown(bound, "one side has no finished run")
    groups = [next(iter(group([summary_of(run) for run in side]))) for side in sides]
    margins = margins_of(bound.tune, sides[1], sides[0])
    ratio, because = _ratio(bound, groups, sides, level)
    return replace(judged(bound, ratio, groups, margins), because=because)


def _sides(study: Study, runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    default = [run for run in runs if _is_default(study, run)]
    return default, [run for run in runs if not _is_default(study, run)]


def _ratio(
    bound: Bound, groups: Sequence[Group], sides: Sequence[Sequence[Run]], level: float
) -> tuple[Estimate, tuple[Finding, ...]]:
    """Tuned over default, from paired slices or from the pairs of runs of each repeat; and why it is not known."""
    if bound.objective.in_turns:
        paired = {run.id: run for side in sides for run in side if run.sections.pairing}
        rates = {id: row_kind(run).slices(run) for id, run in paired.items()}
        found = {each.ratio.metric: each for each in by_turns(groups[1], groups[0], paired, rates, level=level)}
        turns = found.get(bound.objective.metric)
        if turns is None:
            return Estimate.absent(RATIO, "no round has both"), ()
        if turns.ranked:
            return turns.ratio.ratio, ()
        return Estimate.absent(RATIO, "the ratio was not steady"), turns.own or (turns.ratio.reason,)
    values = [{run.spec.repeat: summary_of(run).metrics.get(bound.objective.metric) for run in side} for side in sides]
    pairs = [(values[0][each], values[1][each]) for each in sorted(values[0].keys() & values[1].keys())]
    known = [(a.value, b.value) for a, b in pairs if a and b and a.value and b.value]
    return ratio_of_pairs(known, level), ()


def ratio_of_pairs(pairs: Sequence[tuple[float, float]], level: float = 0.95) -> Estimate:
    """b over a from pairs (a, b) that met the same traffic at neighbouring times: the mean log ratio with a t interval
    over pairs, which holds where log ratios of repeats are alike and near normal."""
    logs = [math.log(b / a) for a, b in pairs]
    n = len(logs)
    method = f"mean log ratio of {n} pairs of runs"
    if n < 1:
        return Estimate.absent(RATIO, "no pair of runs has the objective")
    mean = math.fsum(logs) / n
    if n < FEWEST_PAIRS:
        return Estimate(math.exp(mean), RATIO, method, "derived", n=n, no_interval=f"below {FEWEST_PAIRS} pairs")
    spread = math.sqrt(math.fsum((each - mean) ** 2 for each in logs) / (n - 1))
    half = t_quantile(level, n - 1) * spread / math.sqrt(n)
    low, high = math.exp(mean - half), math.exp(mean + half)
    return Estimate(math.exp(mean), RATIO, f"{method}, t interval", "derived", low=low, high=high, level=level, n=n)


def _of_searches(bound: Bound, place: Path, level: float) -> Proof:
    found: dict[str, dict[int, float]] = {"default": {}, "tuned": {}}
    for each in sorted(place.glob("*-*/*/search.json")):
        repeat, _, name = each.parent.parent.name.partition("-")
        if (rate := highest_rate(each.parent)) is not None:
            found[name][int(repeat)] = rate
    both = sorted(found["default"].keys() & found["tuned"].keys())
    proof = judged(bound, ratio_of_pairs([(found["default"][i], found["tuned"][i]) for i in both], level))
    default, tuned = (_mean_rate([found[name][i] for i in both]) for name in ("default", "tuned"))
    return replace(proof, default=default, tuned=tuned)


def _mean_rate(rates: Sequence[float]) -> Estimate:
    if not rates:
        return Estimate.absent(REQUESTS_PER_S, "no rate was within the SLO")
    method, why_not = "mean of the highest rates of searches", "the ratio of the pairs has one"
    mean = math.fsum(rates) / len(rates)
    return Estimate(mean, REQUESTS_PER_S, method, "derived", n=len(rates), no_interval=why_not)


def judged(bound: Bound, ratio: Estimate, groups: Sequence[Group] = (), margins: tuple[Margin, ...] = ()) -> Proof:
    """The verdict by the interval of the ratio, in the direction that the objective counts."""
    metric = bound.objective.metric
    absent = Estimate.absent(bound.objective.unit, "not measured")
    default, tuned = ((each.metrics.get(metric) or absent) for each in groups) if groups else (absent, absent)
    if ratio.low is None or ratio.high is None or ratio.level is None:
        return Proof("not known", ratio, default, tuned, None, margins)
    better = ratio.low > 1 if bound.objective.sign > 0 else ratio.high < 1
    worse = ratio.high < 1 if bound.objective.sign > 0 else ratio.low > 1
    smallest = math.sqrt(ratio.high / ratio.low) - 1
    verdict: Verdict = "gain" if better else "loss" if worse else "no gain shown"
    return Proof(verdict, ratio, default, tuned, smallest, margins)


def _unknown(bound: Bound, why: str) -> Proof:
    absent = Estimate.absent(bound.objective.unit, why)
    return Proof("not known", Estimate.absent(RATIO, why), absent, absent, None)


def as_searched(values: Mapping[int, Mapping[int, float]], winner: int, sign: int, level: float = 0.95) -> Estimate:
    """Tuned over default as the search saw it, which chose the winner by these very values: too good, on average."""
    mine, theirs = values[winner], values[0]
    both = sorted(mine.keys() & theirs.keys())
    return ratio_of_pairs([(math.exp(sign * theirs[i]), math.exp(sign * mine[i])) for i in both], level)
