"""Metrics of a training run, speed and quality, from its steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinlens.record.column import without_waiting
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.step import Steps
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.stats.estimator.interval import mean_interval
from twinlens.stats.estimator.quantile import quantile
from twinlens.stats.estimator.rate import Series, rate_interval
from twinlens.stats.estimator.ratio import of_ceiling
from twinlens.stats.estimator.repeats import scaled
from twinlens.stats.metrics.energy import memory
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.steady.segment import Steadiness, peak_rate, retention, segment
from twinlens.stats.wall_time import STARTING, in_save
from twinlens.units import (
    BYTES,
    COUNT,
    FLOP_PER_S,
    IMAGES_PER_S,
    NATS,
    RATIO,
    SAMPLES_PER_S,
    SECONDS,
    TOKENS_PER_S,
    digits,
)

_COMPLETE = 1 - 1e-6  # of counted FLOP: a sum of floats
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def training_steadiness(steps: Steps, rule: SteadyRule = SteadyRule()) -> tuple[Steps, Steadiness | None]:
    """The optimizer steps alone (`trained_alone`), and the verdict on them.

    Saves are planned, and no disturbance: a step that pays for one is judged without the time that it blocked, and a
    step beside which one was written as its neighbours. All of it stays in every rate.
    """
    only = trained_alone(steps)
    if not len(only):
        return only, None
    tagged = np.flatnonzero(np.isin(only.tag, STARTING))
    saved_s = np.nan_to_num(only.phases_ns["checkpoint"]) / 1e9
    judged_s = _as_neighbours(np.maximum(_durations_s(only) - saved_s, 1e-9), only.tag == "saving")
    return only, segment(judged_s, work=_work(only), tagged_rows=tagged, rule=rule)


def _as_neighbours(judged_s: np.ndarray, beside: np.ndarray) -> np.ndarray:
    """Times [n] with those of the rows `beside` drawn between their neighbours; as they are where there are none."""
    calm = np.flatnonzero(~beside)
    if not beside.any() or not calm.size:
        return judged_s
    return np.where(beside, np.interp(np.arange(len(judged_s)), calm, judged_s[calm]), judged_s)


def trained_alone(steps: Steps) -> Steps:
    """The optimizer steps alone, without the time of evaluations and of other points' turns between them.

    An evaluation trains nothing: leaving its time in would make the rate depend on how often one looks. So does the
    recovery from a rank that was killed, with the steps done again: one failure says nothing of how often there is one.
    Its price is in the goodput.
    """
    trained = (steps.kind == "step") & (steps.tag != "repeat")
    other_ns = np.cumsum(np.where(trained, 0, steps.end_ns - steps.begin_ns))
    aside_ns = other_ns + without_waiting(steps.begin_ns, steps.end_ns, steps.slice)
    only = steps.where(trained)
    only.begin_ns[:] -= aside_ns[trained]
    only.end_ns[:] -= aside_ns[trained]
    return only


def training_metrics(
    steps: Steps, only: Steps, steadiness: Steadiness | None, workload: TrainingWorkload, facts: Facts | None
) -> dict[str, Estimate]:
    """All metrics of one training run; `only` and `steadiness` are those of `training_steadiness`."""
    known = facts.memory if facts else {}
    metrics = dict(memory(known))
    if facts and "parameters" in facts.work and "bytes_per_parameter" not in metrics:
        metrics["bytes_per_parameter"] = _bytes_per_parameter(facts)
    metrics |= _trainable(facts) if facts else {}
    metrics |= training_quality(steps, workload, facts.entropy_rate_nats if facts else None)
    if steadiness is None:
        return metrics
    window = only.where(slice(whole_saves(only, steadiness.steady_begin), steadiness.steady_end))
    counted, unit = counted_of(only, workload)
    rate = rate_interval(_work(window), window.begin_ns, window.end_ns, unit=unit)
    durations = Series(_durations_s(window))
    return (
        {
            f"training_{counted}_per_s": rate,
            f"training_peak_{counted}_per_s": peak_rate(steadiness, unit=unit),
            **_between_saves(window, counted, unit),
            "retention": retention(rate, steadiness),
        }
        | {f"step_s_{name}": quantile(durations, q, unit=SECONDS, in_time_order=True) for name, q in _QUANTILES.items()}
        | _shares(window)
        | (_efficiency(rate, _work(window).mean(), facts) if facts else {})
        | metrics
    )


def counted_of(steps: Steps, workload: TrainingWorkload) -> tuple[str, str]:
    """The name of what steps work through, and the unit of its rate: tokens, images, or samples of a loop of one's own,
    of which it is not known what they are."""
    if steps.tokens.any():
        return "tokens", TOKENS_PER_S
    return ("samples", SAMPLES_PER_S) if workload.data.kind == "own" else ("images", IMAGES_PER_S)


def whole_saves(only: Steps, begin: int) -> int:
    """The first row from `begin` on with which the window holds whole intervals between saves: each save with the steps
    before it. `begin` where it holds no two saves."""
    paid = np.flatnonzero(np.nan_to_num(only.phases_ns["checkpoint"][begin:]) > 0)
    if paid.size < 2:
        return begin
    interval = int(paid[1] - paid[0])
    return begin + (len(only) - begin) % interval


def _work(steps: Steps) -> np.ndarray:
    return steps.tokens if steps.tokens.any() else steps.samples


def _durations_s(steps: Steps) -> np.ndarray:
    """Time from the end of the step before to this one's end: what lies between two steps belongs to the second."""
    charged = np.diff(steps.end_ns, prepend=steps.begin_ns[:1]) if len(steps) else steps.end_ns
    return np.asarray(charged, float) / 1e9


def _shares(window: Steps) -> dict[str, Estimate]:
    lasted_ns = window.end_ns - window.begin_ns
    total, clock = float(lasted_ns.sum()), np.concatenate([[0], np.cumsum(lasted_ns)])
    shares, left = {}, 1.0
    for phase, spent in window.phases_ns.items():
        if np.isnan(spent).all():
            continue  # a phase that does not exist here is absent, not 0
        left -= float(np.nansum(spent)) / total
        shares[f"{phase}_share"] = _share_of_time(np.nan_to_num(spent), clock)
    if not np.isnan(window.spread_ns).all():
        shares["straggler_share"] = _share_of_time(np.nan_to_num(window.spread_ns), clock)
    left = round(left, 9)  # sums of nanoseconds as floats leave that much
    shares["unattributed_share"] = (
        Estimate.absent(RATIO, f"the phases overlap: together they are {100 * (1 - left):.4g} % of step time")
        if left < 0
        else Estimate(left, RATIO, "step time in no phase / step time", "measured", n=len(window))
    )
    return shares


def _between_saves(window: Steps, counted: str, unit: str) -> dict[str, Estimate]:
    """The rate of the steps that neither paid for a save nor had one written beside them; empty without saves."""
    saving = in_save(window)
    if not saving.any():
        return {}
    calm, name = window.where(~saving), f"training_{counted}_per_s_between_saves"
    if not len(calm):
        return {name: Estimate.absent(unit, "every step of the window has a save in it or beside it")}
    clock = np.concatenate([[0], np.cumsum(calm.end_ns - calm.begin_ns)])
    return {name: rate_interval(_work(calm), clock[:-1], clock[1:], unit=unit, name="work / time, without saves")}


def _share_of_time(spent_ns: np.ndarray, clock_ns: np.ndarray) -> Estimate:
    """Time in a phase over step time, both summed, so that the shares of all phases and of none add up to 1."""
    # Step time takes the place of the clock: time in the phase per second of it is the share.
    name = "time in the phase / step time"
    share = rate_interval(spent_ns / 1e9, clock_ns[:-1], clock_ns[1:], unit=RATIO, name=name)
    return replace(share, high=None if share.high is None else min(1.0, share.high))


def _efficiency(rate: Estimate, work_per_step: float, facts: Facts) -> dict[str, Estimate]:
    """MFU and HFU against the measured matrix rate, and beside it at the model's own shapes and the datasheet."""
    metrics: dict[str, Estimate] = {}
    model = facts.work.get("step_flop")
    executed = facts.work.get("counted_step_flop")
    ceilings = facts.ceilings
    if model and model.value is None:  # counted FLOP alone could not be told from some that the counter missed
        return {name: Estimate.absent(RATIO, model.reason or "") for name in ("mfu", "hfu")}
    if model and model.value:
        metrics["flop_per_s"] = scaled(rate, model.value / work_per_step, FLOP_PER_S, model.method)
        for name, ceiling in (
            ("mfu", "matrix_flop_per_s"),
            ("mfu_own_shapes", "matrix_flop_per_s_at"),
            ("mfu_datasheet", "datasheet_flop_per_s"),
        ):
            if ceiling in ceilings:
                metrics[name] = of_ceiling(metrics["flop_per_s"], ceilings[ceiling])
    if executed and executed.value and model and model.value and executed.value < _COMPLETE * model.value:
        missed = f"only {executed.value / model.value:.0%} of the model's FLOP were counted"
        metrics["hfu"] = Estimate.absent(RATIO, f"{missed}, and what ran is never less than the model needs")
    elif executed and executed.value and "matrix_flop_per_s" in ceilings:
        done = scaled(rate, executed.value / work_per_step, FLOP_PER_S, "counted FLOP, recomputation included")
        metrics["hfu"] = of_ceiling(done, ceilings["matrix_flop_per_s"])
    if "flop_coverage" in facts.work:
        metrics["flop_coverage"] = facts.work["flop_coverage"]
    return metrics


def _trainable(facts: Facts) -> dict[str, Estimate]:
    """How many parameters are trained, and their share of all, adapters among them; empty where nobody counted."""
    trained, below = facts.work.get("trainable_parameters"), facts.work.get("parameters")
    if trained is None or trained.value is None or below is None or not below.value:
        return {}
    # An adapter stands beside the model's own parameters, which are all counted where one is trained.
    beside = trained.value if "adapter_bytes" in facts.memory else 0.0
    method = "parameters that take a gradient / all parameters, an adapter's among them"
    share = Estimate(min(1.0, trained.value / (below.value + beside)), RATIO, method, "derived", n=1)
    return {"trainable_parameters": trained, "trainable_share": share}


def _bytes_per_parameter(facts: Facts) -> Estimate:
    names = ("weights_bytes", "gradients_bytes", "optimizer_bytes")
    apart = [name for name in ("adapter_bytes",) if name in facts.memory]
    parts = [facts.memory[name].value for name in (*names, *apart) if name in facts.memory]
    count = facts.work["parameters"].value
    if len(parts) < len(names) or None in parts or not count:
        return Estimate.absent(BYTES, "not every category was measured")
    method = (
        f"weights + {'adapter + ' if apart else ''}gradients + optimizer state, per parameter; activations excluded"
    )
    ranks = facts.executor.value("training.world_size")
    if isinstance(ranks, int) and ranks > 1:
        method += f"; what one of {ranks} ranks keeps, which may be a part of the model"
    return Estimate(sum(p for p in parts if p is not None) / count, BYTES, method, "derived", n=1)


# Quality beside the speed of training: the loss that was reached, and the time to a target.

EQUAL_STEPS = "at equal steps"
_CENSORED = "interval-censored at the evaluations: (last miss, first hit]; the value is the middle"


def target_nats(workload: TrainingWorkload, entropy_rate_nats: float | None) -> float | None:
    """The held-out loss at which training may stop, or None. A gap needs an entropy rate that is known."""
    until = workload.until
    if until is None:
        return None
    if until.loss_nats is not None:
        return until.loss_nats
    known = entropy_rate_nats is not None and until.gap_nats is not None
    return entropy_rate_nats + until.gap_nats if known else None  # type: ignore[operator]


def training_quality(steps: Steps, workload: TrainingWorkload, entropy_rate_nats: float | None) -> dict[str, Estimate]:
    """Final loss, its gap to the entropy rate, and what it took to reach the target."""
    looked = np.flatnonzero((steps.kind == "evaluate") & ~np.isnan(steps.loss))
    metrics: dict[str, Estimate] = {"final_loss": _final_loss(steps, looked)}
    if entropy_rate_nats is not None and metrics["final_loss"].value is not None:
        metrics["loss_gap"] = _gap(metrics["final_loss"], entropy_rate_nats)
    target = target_nats(workload, entropy_rate_nats)
    if target is not None:
        metrics |= _to_target(steps, looked, target)
    return metrics


def missed_target(steps: Steps, target: float) -> dict[str, float | None] | None:
    """The outcome where no evaluation reached the target loss: how often it was looked, and the best loss that was

    seen, if one was a number. None where it was reached.
    """
    losses = steps.loss[steps.kind == "evaluate"]
    if (losses <= target).any():
        return None
    numbers = losses[np.isfinite(losses)]
    best = float(numbers.min()) if numbers.size else None
    return {"target_nats": target, "looks": losses.size, "best_nats": best}


def divergence(steps: Steps) -> dict[str, int] | None:
    """Where the loss was no number: how many rows of how many that recorded one, and the first. None where it held."""
    lost = np.flatnonzero(np.isinf(steps.loss))
    if not lost.size:
        return None
    return {"rows": int(lost.size), "of": int((~np.isnan(steps.loss)).sum()), "first": int(lost[0])}


def _final_loss(steps: Steps, looked: np.ndarray) -> Estimate:
    lost = divergence(steps)
    if lost is not None:
        reason = f"training diverged: the loss of {lost['rows']} of {lost['of']} rows is not a number, from row"
        return Estimate.absent(NATS, f"{reason} {lost['first']} on")
    if looked.size:
        return Estimate(float(steps.loss[looked[-1]]), NATS, "last evaluation on held-out batches", "measured", n=1)
    recent = steps.loss[-max(5, len(steps) // 10) :]
    recent = recent[np.isfinite(recent)]
    if not recent.size:
        return Estimate.absent(NATS, "no step recorded a loss")
    return mean_interval(recent, unit=NATS, method_suffix=f", training loss of the last {recent.size} steps")


def loss_after(steps: Steps, count: int) -> Estimate:
    """The training loss after so many optimizer steps, nats: the mean of the last max(5, count/10) of these."""
    losses = steps.loss[steps.kind == "step"][:count]
    recent = losses[-max(5, count // 10) :]
    recent = recent[np.isfinite(recent)]
    if not recent.size:
        return Estimate.absent(NATS, "no step recorded a loss")
    return mean_interval(recent, unit=NATS, method_suffix=f", training loss {EQUAL_STEPS}: the last of {count}")


def _gap(loss: Estimate, entropy_rate_nats: float) -> Estimate:
    assert loss.value is not None
    low, high = (None if b is None else b - entropy_rate_nats for b in (loss.low, loss.high))
    method = f"final loss less the known entropy rate of {digits(entropy_rate_nats, 4)} nats"
    return Estimate(loss.value - entropy_rate_nats, NATS, method, "derived", low, high, loss.level, loss.n)


def _to_target(steps: Steps, looked: np.ndarray, target: float) -> dict[str, Estimate]:
    hits = [row for row in looked if steps.loss[row] <= target]
    if missed := missed_target(steps, target):
        best = "no evaluation" if not missed["looks"] else "no held-out loss is a number"
        best = best if missed["best_nats"] is None else f"best {digits(missed['best_nats'], 4)}"
        reason = f"target {digits(target, 4)} nats not reached ({best})"
        return {
            "time_to_target_s": Estimate.absent(SECONDS, reason),
            "samples_to_target": Estimate.absent(COUNT, reason),
        }
    hit = hits[0]
    misses = looked[looked < hit]
    trained = np.cumsum(np.where(steps.kind == "step", steps.samples, 0))
    start_ns = steps.begin_ns[0]
    before_s = float(steps.end_ns[misses[-1]] - start_ns) / 1e9 if misses.size else 0.0
    before = float(trained[misses[-1]]) if misses.size else 0.0
    after_s, after = float(steps.end_ns[hit] - start_ns) / 1e9, float(trained[hit])
    return {
        "time_to_target_s": Estimate((before_s + after_s) / 2, SECONDS, _CENSORED, "measured", before_s, after_s, n=1),
        "samples_to_target": Estimate((before + after) / 2, COUNT, _CENSORED, "measured", before, after, n=1),
    }
