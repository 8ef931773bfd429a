"""A measured side and its twin in virtual time: where the two part, part by part, inside the band or outside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri, stdtrit

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.units import RATIO, REQUESTS_PER_S, SECONDS

Part = Literal["arrival", "queue", "prefill", "decode", "tail"]
LEVEL = 0.9
FEWEST_ALONE = 8
"""Requests that found nobody under way, from which the time of a prompt alone is known."""
_DRAWS, _BLOCK = 200, 32
_TAIL = 0.95
_NOBODY = f"fewer than {FEWEST_ALONE} requests of a run found nobody under way, so a prompt alone is not seen"
_NO_QUEUE = "a side had no wait to speak of"
UNITS: Mapping[Part, str] = {
    "arrival": REQUESTS_PER_S, "queue": SECONDS, "prefill": SECONDS, "decode": SECONDS, "tail": SECONDS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PartOfTwin:
    """One part on both sides. `ratio`: simulated over measured. `inside`: whether its interval holds 1, which is the
    band of the simulation and the noise of the measurement together; None where there is none."""

    part: Part
    measured: Estimate
    simulated: Estimate
    ratio: Estimate
    inside: bool | None


@dataclass(frozen=True, slots=True)
class Twin:
    """All parts, in the order in which a request meets them."""

    parts: tuple[PartOfTwin, ...]

    @property
    def outside(self) -> tuple[Part, ...]:
        """Parts in which the two differ by more than band and noise."""
        return tuple(each.part for each in self.parts if each.inside is False)

    @property
    def is_inside(self) -> bool:
        """Whether no part that could be judged lies outside."""
        return not self.outside


def twin(measured: Sequence[Run], simulated: Sequence[Run]) -> Twin:
    """Both sides by their rows alone, the same way.

    `arrival`: requests per second. `prefill`: median time to the first token of requests that found nobody under way.
    `queue`: by how much the mean time to the first token is longer. `decode`: mean time of a token after the first.
    `tail`: 95th percentile of the whole answer.
    """
    ours = [_parts(run.requests.own_time()) for run in measured]
    errors = [_errors(run.requests.own_time()) for run in measured]
    theirs = [_parts(run.requests) for run in simulated]
    return Twin(tuple(_one(part, ours, errors, theirs) for part in UNITS))


def _one(
    part: Part, ours: Sequence[Mapping[Part, float]], errors: Sequence[Mapping[Part, float]],
    theirs: Sequence[Mapping[Part, float]],
) -> PartOfTwin:  # fmt: skip
    unit = UNITS[part]
    measured = _measured([each[part] for each in ours], [each[part] for each in errors], unit)
    simulated = _simulated([each[part] for each in theirs], unit)
    if measured.value is None or simulated.value is None:
        why = str(measured.reason or simulated.reason)
        return PartOfTwin(part, measured, simulated, Estimate.absent(RATIO, why), None)
    if min(measured.value, simulated.value) <= 0:
        return PartOfTwin(part, measured, simulated, Estimate.absent(RATIO, _NO_QUEUE), None)
    ratio = _ratio(measured, simulated, [each[part] for each in theirs if math.isfinite(each[part])])
    inside = None if ratio.low is None or ratio.high is None else ratio.low <= 1 <= ratio.high
    return PartOfTwin(part, measured, simulated, ratio, inside)


def _measured(values: Sequence[float], errors: Sequence[float], unit: str) -> Estimate:
    known = [(value, error) for value, error in zip(values, errors, strict=True) if not math.isnan(value)]
    if not known:
        return Estimate.absent(unit, _NOBODY)
    value = float(np.mean([each for each, _ in known]))
    within = math.sqrt(sum(error**2 for _, error in known)) / len(known)
    between = float(np.std([each for each, _ in known], ddof=1)) / math.sqrt(len(known)) if len(known) > 2 else 0.0
    half = float(ndtri((1 + LEVEL) / 2)) * max(within, between)
    method = f"mean of {len(known)} run{'' if len(known) == 1 else 's'}, bootstrap of blocks of {_BLOCK} requests"
    return Estimate(value, unit, method, "measured", value - half, value + half, LEVEL, n=len(known))


def _simulated(values: Sequence[float], unit: str) -> Estimate:
    known = [each for each in values if math.isfinite(each)]
    if not known:
        return Estimate.absent(unit, _NOBODY)
    low, middle, high = (float(np.quantile(known, q)) for q in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
    method = f"median of {len(known)} simulations, and the band that holds nine of ten"
    if len(known) < 2:
        return Estimate(middle, unit, method, "simulated", n=1, no_interval="one simulation has no spread")
    return Estimate(middle, unit, method, "simulated", low, high, LEVEL, n=len(known))


def _ratio(measured: Estimate, simulated: Estimate, values: Sequence[float]) -> Estimate:
    """The ratio, such that all five parts together hold at `LEVEL` (Bonferroni): how far one simulation may lie off by
    its spread over seeds and constants (Student's t), and the noise of the measurement, added as squares of logarithms.
    """
    value, base = simulated.value or 0.0, measured.value or 0.0
    ratio, count = value / base, len(values)
    each = 1 - (1 - LEVEL) / len(UNITS)
    method = f"simulated over measured; each part at {each:.0%}, so that all {len(UNITS)} hold at {LEVEL:.0%}"
    if count < 2 or measured.high is None:
        return Estimate(ratio, RATIO, method, "simulated", no_interval="one simulation has no spread")
    if min(values) <= 0:
        return Estimate(ratio, RATIO, method, "simulated", no_interval="in some simulations nobody waited")
    theirs = (
        float(stdtrit(count - 1, (1 + each) / 2)) * float(np.std(np.log(values), ddof=1)) * math.sqrt(1 + 1 / count)
    )
    ours = float(ndtri((1 + each) / 2) / ndtri((1 + LEVEL) / 2)) * (measured.high - base) / base
    half = math.exp(math.hypot(theirs, ours))
    return Estimate(ratio, RATIO, method, "simulated", ratio / half, ratio * half, each, n=count)


def _parts(requests: Requests) -> dict[Part, float]:
    """Each part of one run; NaN where it cannot be seen."""
    due_s = np.sort(requests.intended_ns) / 1e9
    order = np.argsort(requests.intended_ns, kind="stable")
    first_s = (requests.first_chunk_ns() - requests.intended_ns) / 1e9
    last_s = (requests.end_ns - requests.intended_ns) / 1e9
    chunk_s = (requests.last_chunk_ns() - requests.first_chunk_ns()) / 1e9
    with np.errstate(divide="ignore", invalid="ignore"):
        gap_s = chunk_s / (requests.output_tokens - 1)
    ok = requests.ok
    before = np.concatenate([[-np.inf], np.maximum.accumulate(requests.end_ns[order])[:-1]])
    alone = order[(before <= requests.intended_ns[order]) & ok[order]]
    prefill = float(np.median(first_s[alone])) if len(alone) >= FEWEST_ALONE else math.nan
    span_s = due_s[-1] - due_s[0] if len(due_s) > 1 else 0.0
    whole = np.where(ok, last_s, np.inf)
    return {
        "arrival": (len(due_s) - 1) / span_s if span_s else math.nan,
        "queue": float(np.mean(first_s[ok])) - prefill if ok.any() else math.nan,
        "prefill": prefill,
        "decode": float(np.mean(gap_s[ok & (requests.output_tokens > 1)])) if ok.any() else math.nan,
        "tail": float(np.quantile(whole, _TAIL, method="nearest")) if len(whole) else math.nan,
    }


def _errors(requests: Requests) -> dict[Part, float]:
    """The standard error of each part of one run, by a bootstrap of blocks of requests; of arrivals, by their gaps."""
    count = len(requests)
    first_s = (requests.first_chunk_ns() - requests.intended_ns) / 1e9
    with np.errstate(divide="ignore", invalid="ignore"):
        gap_s = (requests.last_chunk_ns() - requests.first_chunk_ns()) / 1e9 / (requests.output_tokens - 1)
    whole_s = (requests.end_ns - requests.intended_ns) / 1e9
    rng = np.random.default_rng(0)
    block = max(1, min(_BLOCK, count // 8))
    starts = rng.integers(0, count, (_DRAWS, -(-count // block)))
    drawn = ((starts[:, :, None] + np.arange(block)) % count).reshape(_DRAWS, -1)[:, :count]
    rate = _parts(requests)["arrival"]
    first = float(np.std(np.nanmean(first_s[drawn], axis=1)))
    return {
        "arrival": rate / math.sqrt(count),
        "queue": first,
        "prefill": first,
        "decode": float(np.std(np.nanmean(gap_s[drawn], axis=1))),
        "tail": float(np.std(np.quantile(whole_s[drawn], _TAIL, axis=1, method="nearest"))),
    }
