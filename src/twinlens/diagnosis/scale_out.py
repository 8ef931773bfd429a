"""Scale out or optimise: whether another device, or better use of this one, gives more; and where that flips.

Another device gives at most (N + 1) / N of the throughput. Optimising gives at most 1 / utilisation, and a larger batch
what the roofline allows. The larger of the two is what to do first. Of a server that is seen from outside, its SLO, its
queue and its slots decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.diagnosis.decoder import decode_floor_s, prefill_floor_s, roofs_of
from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.phase import known, place_of
from twinlens.diagnosis.verdict import PART_BINDS
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.units import RATIO

HALF_EMPTY = 0.5
"""Slots of a server that generate, as a share: below it, requests that wait do not wait for the device."""
_MANY = 1024.0  # times the batch: there the roofline of a decode step no longer changes
_QUEUE = ("held", "queue")
_HOST = ("before-sending", "transport", "after-last-token")
_SHARED = ("forward", "backward")  # parts of a training step that devices split among them


def scale_out(seen: Evidence) -> Finding:
    """One of `scale-out`, `optimise-first`, `optimise-and-scale-out`, `neither-needed` and `scaling-undecided`."""
    return _of_server(seen) if seen.kind == "served" else _of_engine(seen)


def device_gain(seen: Evidence) -> float:
    """The most that one more device gives in throughput: of a training step only what devices split gets shorter."""
    more = (seen.devices + 1) / seen.devices
    if seen.kind != "training":
        return more
    split = sum(seen.partition.share(part) for part in _SHARED)
    return 1 / (1 - split + split / more) if split else more


def batch_gain(seen: Evidence, times: float = _MANY) -> float | None:
    """The throughput at `times` the batch over that at this batch, by the roofline; None where it is not known.

    The time of each phase is scaled by its least time, so that it stays as far above its roof as it is.
    """
    ran, roofs = seen.decoder, roofs_of(seen.ceilings)
    if ran is None or roofs is None or not seen.partition.seconds:
        return None
    batch, parts = float(ran.batch), dict(seen.partition.parts)
    for part, floor in (("prefill", prefill_floor_s), ("decode", decode_floor_s)):
        parts[part] = parts.get(part, 0.0) * float(floor(ran, roofs, times * batch) / floor(ran, roofs, batch))
    return times * seen.partition.seconds / sum(parts.values())


def _of_engine(seen: Evidence) -> Finding:
    used = utilisation(seen)
    if used.value is None:
        return _undecided(seen, "utilisation", {"reason": used.reason})
    device, batch = device_gain(seen), batch_gain(seen)
    whole = seen.partition.seconds
    least_s = used.value * whole
    numbers: dict[str, Any] = {
        "unit": seen.partition.unit, "utilisation": used.value, "flips_at": 1 / device, "flips_at_s": least_s * device,
        "optimise_at_most": 1 / used.value, "headroom_s": whole - least_s, "batch": seen.batch,
        "batch_at_most": batch, "batch_twice": batch_gain(seen, 2.0), "devices": seen.devices,
        "device_at_most": device, "communication": seen.partition.share("communicate"),
        "device_saves_s": whole * (1 - 1 / device) if seen.kind == "training" else 0.0,
        "training": seen.kind == "training", "link_known": "communicate" in seen.partition.parts,
    }  # fmt: skip
    evidence = {"utilisation": used}
    lever = "batch" if (batch or 0.0) > 1 / used.value else "kernels"
    if batch is not None and batch >= device:
        return _found("optimise-first", seen, numbers | {"lever": lever}, evidence)
    low, high = used.low or used.value, used.high or used.value
    if low < 1 / device <= high and low < high:
        return _undecided(seen, "interval", numbers | {"low": low, "high": high}, evidence)
    if used.value < 1 / device:
        return _found("optimise-first", seen, numbers | {"lever": lever}, evidence)
    return _found("scale-out", seen, numbers, evidence)


def _of_server(seen: Evidence) -> Finding:
    share = {name: sum(seen.partition.share(part) for part in parts) for name, parts in
             (("queue", _QUEUE), ("host", _HOST))}  # fmt: skip
    kept, slots, in_time = (_value(seen, name) for name in ("slo_attainment", "batching_efficiency", "tpot_s_within"))
    used = decode_use(seen)
    told = "queue" in seen.partition.parts or share["queue"] >= PART_BINDS
    numbers: dict[str, Any] = {
        "unit": "request", "attainment": kept, "needed": seen.slo_share, "slots": slots, "decode_use": used,
        "queue": share["queue"] if told else None, "host": share["host"] if told else None,
        "device_saves_s": share["queue"] * seen.partition.seconds if told else None,
        "headroom_s": share["host"] * seen.partition.seconds if told else None,
    }  # fmt: skip
    names = ("slo_attainment", "batching_efficiency", "ttft_s_within", "tpot_s_within")
    evidence = {name: seen.metrics[name] for name in names if name in seen.metrics}
    codes = {finding.code for finding in seen.findings}
    overloaded, missed = seen.label == "overload", "slo-missed" in codes
    if seen.label == "invalid":
        return _undecided(seen, "valid", numbers, evidence)
    if seen.slo_share is None and not overloaded:
        return _undecided(seen, "slo", numbers, evidence)
    if not missed and not overloaded:
        if "slo-unclear" in codes or kept is None:
            return _undecided(seen, "attainment", numbers, evidence)
        return _found("neither-needed", seen, numbers, evidence)
    if not told:
        return _undecided(seen, "queue", numbers, evidence)
    if share["host"] >= PART_BINDS and share["host"] >= share["queue"]:
        return _found("optimise-first", seen, numbers | {"lever": "host"}, evidence)
    if share["queue"] < PART_BINDS:
        return _found("optimise-first", seen, numbers | {"lever": "service"}, evidence)
    if slots is None and used is None:
        return _undecided(seen, "slots", numbers, evidence)
    if slots is not None and slots < HALF_EMPTY:
        return _found("optimise-first", seen, numbers | {"lever": "slots"}, evidence)
    if slots is None and used is not None and used < 1 / device_gain(seen):
        return _found("optimise-first", seen, numbers | {"lever": "kernels"}, evidence)
    is_slow = in_time is not None and seen.slo_share is not None and in_time < seen.slo_share
    return _found("optimise-and-scale-out" if is_slow else "scale-out", seen, numbers, evidence)


def decode_use(seen: Evidence) -> float | None:
    """The share of its nearest ceiling that a decode step of a server reaches; None where ceilings or work lack."""
    decode = next((phase for phase in seen.phases if phase.name == "decode"), None)
    place = place_of(decode, seen.ceilings) if decode is not None else None
    return None if place is None else max(place.compute_share, place.bandwidth_share)


def _value(seen: Evidence, name: str) -> float | None:
    return seen.metrics[name].value if name in seen.metrics else None


def _undecided(
    seen: Evidence, missing: str, numbers: Mapping[str, Any], evidence: Mapping[str, Estimate] | None = None
) -> Finding:
    return _found("scaling-undecided", seen, {"missing": missing} | dict(numbers), evidence or {})


def _found(code: str, seen: Evidence, numbers: Mapping[str, Any], evidence: Mapping[str, Estimate]) -> Finding:
    plain = {"served": seen.kind == "served", "ranked": seen.ranked}
    return Finding(code, "notes", seen.partition.unit, plain | dict(numbers), evidence)


# Utilisation: the least time of a step or request by measured ceilings, over the time that it took.

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
