"""Findings of a parallel run before its rows: losses against one process, how much of the exchange is hidden. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy import stats

from twinlens.executors.torch import same_losses
from twinlens.record.finding import Finding

TOLERANCE = {"fp32": 1e-4, "tf32": 2e-3, "bf16": 5e-3}
"""The largest relative difference of a loss; the first gradient's norm may differ by ten times that. Sums in another
order differ by far less."""
_GRADIENT_FACTOR = 10.0
_LEVEL = 0.95


def against_one_process(ranks: Sequence[dict[str, Any]], precision: str) -> Finding:
    """Whether the ranks together train as one process does; a run of which this is not known is not ranked."""
    compared = [rank["compared"] for rank in ranks]
    if not compared[0]:
        return Finding("one-process-not-compared", "disqualifies")
    alone, has_losses = compared[0]["alone"], [told for told in compared if told["together"]["losses"]]
    together = [_mean(each) for each in zip_longest(*(told["together"]["losses"] for told in has_losses))]
    losses = same_losses.compared(zip_longest(alone["losses"], together))
    norm_off = same_losses.apart(alone.get("gradient_norm"), compared[0]["together"].get("gradient_norm"))
    tolerance = TOLERANCE[precision]
    numbers = {
        "steps": losses.steps,
        "worst": losses.worst,
        "unknown": losses.unknown,
        "gradient_norm_off": norm_off,
        "tolerance": tolerance,
        "gradient_tolerance": _GRADIENT_FACTOR * tolerance,
        "alone": alone["losses"],
        "together": together,
    } | {name: compared[0][name] for name in ("twin_layers", "layers") if name in compared[0]}
    is_same_gradient = norm_off is not None and norm_off <= _GRADIENT_FACTOR * tolerance
    if losses.are_within(tolerance) and is_same_gradient:  # AdamW hides a gradient's scale
        return Finding("one-process-equal", "notes", "", numbers)
    return Finding("one-process-differs", "disqualifies", "", numbers)


def _mean(losses: Sequence[float | None]) -> float | None:
    """Over the ranks; None where one of them has none."""
    known = [loss for loss in losses if loss is not None]
    return sum(known) / len(known) if len(known) == len(losses) else None


def exchanged(ranks: Sequence[dict[str, Any]]) -> Finding | None:
    """Bytes of gradients that a step sent, beside those that there are; None where no hook counts them.

    Equal: gradients were exchanged once a step, after its last microbatch.
    """
    together = [rank["compared"]["together"] for rank in ranks if rank["compared"]]
    if not together or "exchanged_bytes" not in together[0]:
        return None
    worst = max(together, key=lambda told: abs(told["exchanged_bytes"] - told["gradients_bytes"]))
    numbers = {
        "bytes": worst["exchanged_bytes"],
        "gradients_bytes": worst["gradients_bytes"],
        "microbatches": worst["microbatches"],
    }
    if worst["exchanged_bytes"] == worst["gradients_bytes"]:
        return Finding("gradients-exchanged-once", "notes", "", numbers)
    return Finding("gradients-exchanged-otherwise", "warns", "", numbers)


def hidden_share(with_s: Sequence[float], without_s: Sequence[float], flight_s: Sequence[float]) -> dict[str, Any]:
    """How much of the time that gradients were under way the backward pass hid: 1 − (with − without) / under way.

    `exposed_s` is clamped to what was under way; `share` None where the noise of the difference is above that.
    """
    longer = np.array(with_s) - np.array(without_s)
    flight = float(np.mean(flight_s))
    half = float(stats.t.ppf((1 + _LEVEL) / 2, len(longer) - 1) * longer.std(ddof=1) / math.sqrt(len(longer)))
    known = {"flight_s": flight, "longer_s": float(longer.mean()), "noise_s": half, "pairs": len(longer)}
    if flight <= 0 or half > flight:
        return known | {"share": None, "exposed_s": None}
    exposed = min(max(float(longer.mean()), 0.0), flight)
    return known | {"share": 1 - exposed / flight, "exposed_s": exposed}


def _of_exchange(told: dict[str, Any]) -> dict[str, Any]:
    """From the kernels of a GPU, which say it, or from backward passes with and without the exchange."""
    if "with_s" in told:
        return hidden_share(told["with_s"], told["without_s"], told["flight_s"])
    flight_s, exposed_s = told["flight_s"], told["exposed_s"]
    share = 1 - exposed_s / flight_s if flight_s else None
    return {"flight_s": flight_s, "exposed_s": exposed_s, "share": share, "by_kernels": True}


def exchange(ranks: Sequence[dict[str, Any]], on_processor: bool) -> Finding | None:
    """How the slowest rank's exchange overlaps its backward pass; None where no hook and no kernel tells."""
    timed = [rank["exchange"] for rank in ranks]
    if not all(timed):
        return None
    each = [_of_exchange(told) for told in timed]
    slowest = max(each, key=lambda known: known.get("longer_s", known["exposed_s"]))
    numbers = slowest | {name: timed[0][name] for name in ("bytes", "buckets", "flights")}
    numbers |= {"on_processor": on_processor, "ranks": len(ranks)}
    if slowest["share"] is None and "by_kernels" in slowest:
        return None  # the profiler of this GPU gives no kernels
    code = "exchange-not-resolved" if slowest["share"] is None else "exchange-hidden"
    return Finding(code, "notes", "", numbers)


def communication(ranks: Sequence[dict[str, Any]], on_processor: bool) -> Finding | None:
    """Collectives of one profiled step, and how long the rank that waits most has them under way with nothing to
    compute; None where that cannot be told."""
    profiled = [told for rank in ranks if rank["compared"] and (told := rank["compared"]["together"].get("profiled"))]
    if len(profiled) < len(ranks) or not any(told["flight_s"] for told in profiled):
        return None
    slowest = max(profiled, key=lambda told: told["exposed_s"])
    numbers = dict(slowest) | {"share": slowest["exposed_s"] / slowest["flight_s"], "on_processor": on_processor}
    return Finding("communication-exposed", "notes", "", numbers)
