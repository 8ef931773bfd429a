"""Quality beside the speed of training: the loss that was reached, and the time to a target."""

from __future__ import annotations

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.step import Steps
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.stats.estimator.interval import mean_interval
from twinlens.units import COUNT, NATS, SECONDS, digits

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
