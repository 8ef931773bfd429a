"""Utilisation: the least time of a step or request by measured ceilings, over the time that it took."""

from __future__ import annotations

from collections.abc import Mapping

from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.phase import known, place_of
from twinlens.record.estimate import Estimate
from twinlens.units import RATIO

_METHOD = "least time by the roofline with ceilings that this run measured / time"
_IMPOSSIBLE = 1.15  # a share of a ceiling above that says that the ceiling, or the work, is another than was thought
_SMALL = 0.1  # of the time: a phase without a place that takes more leaves the utilisation unknown
_RATES = (
    "training_tokens_per_s",
    "training_images_per_s",
    "training_samples_per_s",
    "output_tokens_per_s",
    "inference_images_per_s",
)


def utilisation(seen: Evidence) -> Estimate:
    """Least over measured time, 0 to 1; its inverse is the most that any optimisation at this batch can give.

    The interval is that of the run's own rate. It spans both sets of ceilings where they were measured twice, and
    reaches up to what it would be of the time in which the threads had a processor.
    """
    if seen.partition.reason is not None or not seen.partition.seconds:
        return Estimate.absent(RATIO, seen.partition.reason or "no time was measured")
    first = _share(seen, seen.ceilings)
    if isinstance(first, str):
        return Estimate.absent(RATIO, first)
    moved = {name: each for name, each in seen.ceilings_after.items() if known(seen.ceilings_after, name)}
    again = _share(seen, dict(seen.ceilings) | moved) if moved else first
    shares = [first] if isinstance(again, str) else sorted({first, again})
    if (seen.on_processor or 1.0) < 1.0:
        shares = [shares[0], min(1.0, shares[-1] / (seen.on_processor or 1.0))]
    rate = next((seen.metrics[name] for name in _RATES if known(seen.metrics, name)), None)
    count = seen.partition.count
    if rate is not None and rate.value and rate.low is not None and rate.high is not None:
        low, high = shares[0] * rate.low / rate.value, min(1.0, shares[-1] * rate.high / rate.value)
        return Estimate(first, RATIO, _METHOD, "derived", min(low, first), max(high, first), rate.level, count)
    if len(shares) == 2:
        return Estimate(
            first,
            RATIO,
            f"{_METHOD}; bounds: ceilings before and after it, processors shared or not",
            "derived",
            shares[0],
            shares[1],
            n=count,
        )
    return Estimate(first, RATIO, _METHOD, "derived", n=count, no_interval="the rate of this run has none")


def _share(seen: Evidence, ceilings: Mapping[str, Estimate]) -> float | str:
    """The share, or the reason why there is none."""
    total, least = seen.partition.seconds, 0.0
    for phase in seen.phases:
        spent = seen.partition.parts.get(phase.part, phase.seconds or 0.0)
        place = place_of(phase, ceilings)
        if place is None:
            if spent <= _SMALL * total:
                continue
            return phase.reason or phase.at_most_because or "the run measured no ceilings"
        share = max(place.compute_share, place.bandwidth_share)
        if max(place.compute_share, place.stream_share) > _IMPOSSIBLE:
            return "a phase is above a measured ceiling, so the ceiling or the work is another"
        least += min(1.0, share) * spent
    return min(1.0, least / total) if least else "no phase has work that is known"
