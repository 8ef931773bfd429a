"""Gains of a narrower precision, and the region of the roofline in which each phase lies.

The least time of each phase is taken out of its measured time and that of the narrower precision put in. The band has
two sides: what is not arithmetic and not bytes stays as it is, or shrinks as the least time does, where kernels keep
their share of a ceiling (docs/results/quantising.md says how many gains lie between). Where the same study measured
that precision, its own ceilings are taken, and its measured ratio stands beside the prediction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlens.diagnosis.decoder import (
    Decoder,
    Roofs,
    batch_at_flip,
    context_at_cache,
    decode_floor_s,
    prefill_floor_s,
    roofs_of,
    samples_at_flip,
    weights_bytes,
)
from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.phase import Phase, known, place_of
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.spec.precision import BITS, PRECISIONS, Precision
from twinlens.theory.flop import prefill_flop
from twinlens.theory.traffic import prefill_bytes
from twinlens.theory.weight_format import widths
from twinlens.units import RATIO

HELPS = 1.05
"""A gain below it is not worth a change of format."""
CASTS = 1.25
"""How many times less than predicted a narrower format may give training, which casts operands for every product."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """The same work in another precision, as measured. `ratio`, `decode_ratio`: its rate over that of this run.

    `is_ranked`: whether the ratio may be ranked; `passes`: its quality check, None where there was none.
    """

    seen: Evidence
    ratio: Estimate
    decode_ratio: Estimate
    is_ranked: bool = True
    passes: bool | None = None


Siblings = Mapping[str, Sibling]


def quantise(seen: Evidence, siblings: Siblings | None = None) -> tuple[Finding, ...]:
    """A finding for each narrower precision, widest first: `quantise-latency`, `quantise-memory`, or
    `quantise-unclear`. None of a server, nor where the run measured no ceilings."""
    known = siblings or {}
    if seen.precision is None or seen.kind == "served":
        return ()
    lens = "training" if seen.kind == "training" else "inference"
    own = _bits(seen.precision, seen.kind)
    found = (
        _judged(seen, regime, known.get(regime.name))
        for regime in PRECISIONS.values()
        if lens in regime.lenses and (not regime.calibrated or regime.name in known) and _bits(regime, seen.kind) < own
    )
    return tuple(each for each in found if each is not None)


def _judged(seen: Evidence, regime: Precision, sibling: Sibling | None) -> Finding | None:
    if seen.precision is None:
        return None
    support = seen.engine_formats.get(regime.compute)
    times = _times(seen, regime, sibling)
    if times is None or (support == "emulated" and sibling is None):
        return None
    whole = seen.partition.seconds
    gains = sorted(whole / each for each in times)
    best = whole / times[0]
    numbers: dict[str, Any] = {
        "naive": _bits(seen.precision, seen.kind) / _bits(regime, seen.kind), "from": seen.precision.name,
        "at_least": gains[0], "at_most": gains[-1], "predicted": best, "support": support,
        "computes_in": regime.compute, "same_compute": regime.compute == seen.precision.compute,
        "of_sibling": sibling is not None, "unit": seen.partition.unit, "passes": sibling.passes if sibling else None,
        "ranked": sibling.is_ranked if sibling else None, "training": seen.kind == "training",
        "seconds": whole, "floor_s": sum(_floors(seen).values()),
    } | _of_decoder(seen, regime, sibling)  # fmt: skip
    evidence = {"predicted": _predicted(best, gains[0], gains[-1], seen.partition.count)}
    if sibling is not None:
        evidence |= {"measured": sibling.ratio, "measured_decode": sibling.decode_ratio}
    low, high = gains[0], gains[-1]
    if sibling is not None and sibling.ratio.low is not None and sibling.ratio.high is not None:
        numbers["is_outside"] = not low <= sibling.ratio.high or not sibling.ratio.low <= high
        low, high = sibling.ratio.low, sibling.ratio.high  # measured goes before predicted
    code = "quantise-latency" if low >= HELPS else "quantise-memory" if high < HELPS else "quantise-unclear"
    return Finding(code, "notes", regime.name, numbers, evidence)


def _predicted(value: float, low: float, high: float, count: int) -> Estimate:
    method = "measured time, least time by the roofline replaced by that of the other precision"
    ends = "; bounds: the rest stays, and the rest shrinks as the least time does, at either ceiling"
    return Estimate(value, RATIO, method + ends, "modelled", low, high, n=count)


def _times(seen: Evidence, regime: Precision, sibling: Sibling | None) -> list[float] | None:
    """Seconds of the unit in the other precision: as most likely, then at its bounds. None where it is not known."""
    if sibling is not None and all(_comparable(seen, sibling.seen)):
        ways = [_swapped(seen, _floors(seen, plain), _floors(sibling.seen, plain, 2.0)) for plain in (False, True)]
    elif seen.decoder is not None and (roofs := roofs_of(seen.ceilings)) is not None:
        ways = [
            _swapped(seen, _floors(seen, plain), _floors_in(seen, regime, roofs, plain, faster))
            for plain in (False, True)
            for faster in (False, True)
        ]
    else:
        return None
    known = [each for way in ways for each in way]
    slower = [known[0] * CASTS] if known and seen.kind == "training" else []
    return [*known, *slower] if all(ways) else None


def _comparable(seen: Evidence, other: Evidence) -> list[bool]:
    return [place_of(each, of.ceilings) is not None for of in (seen, other) for each in of.phases]


def _floors(seen: Evidence, plain: bool = False, most: float = 1.0) -> dict[str, float]:
    """The least seconds of each part of the time that has a place under the roofline. `plain`: of a plain read only.

    `most`: of the measured time; the least time of this run is none that it did not spend.
    """
    floors = {}
    for phase in seen.phases:
        place = place_of(phase, seen.ceilings)
        if place is None:
            continue
        share = max(place.compute_share, place.stream_share if plain else place.bandwidth_share)
        floors[phase.part] = min(most, share) * _spent(seen, phase)
    return floors


def _floors_in(seen: Evidence, regime: Precision, roofs: Roofs, plain: bool, faster: bool) -> dict[str, float]:
    """The same in a precision that was not measured: bytes by theory, at the rates of this run.

    `faster`: arithmetic in a narrower format at as many times the rate as it has fewer bits, where it computes in one.
    """
    ran = seen.decoder
    if ran is None or seen.precision is None:
        return {}
    times = BITS[seen.precision.compute] / BITS[regime.compute] if faster else 1.0
    narrow = Roofs(roofs.flop_per_s * max(1.0, times), roofs.bytes_per_s, None if plain else roofs.matvec)
    prefill = float(prefill_floor_s(ran, narrow, ran.batch, regime))
    step = float(decode_floor_s(ran, narrow, ran.batch, regime))
    steps = {phase.part: _spent(seen, phase) / phase.seconds for phase in seen.phases if phase.seconds}
    return {"prefill": prefill, "decode": step * steps.get("decode", 0.0)}


def _swapped(seen: Evidence, before: Mapping[str, float], after: Mapping[str, float]) -> tuple[float, ...]:
    return times_in(seen.partition.seconds, {each.part: _spent(seen, each) for each in seen.phases}, before, after)


def times_in(
    whole_s: float, spent_s: Mapping[str, float], before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[float, ...]:
    """`whole_s` with the least seconds of each part replaced: where the rest of the part stays, and where all of it
    (`spent_s`) shrinks as the least does. None at all where no part has a least time in both."""
    shared = [part for part in before if part in after]
    stays = sum(after[part] - before[part] for part in shared)
    shrinks = sum(spent_s[part] * (after[part] / before[part] - 1) for part in shared)
    return (whole_s + stays, whole_s + shrinks) if shared else ()


def _spent(seen: Evidence, phase: Phase) -> float:
    return seen.partition.parts.get(phase.part, phase.seconds or 0.0)


def _of_decoder(seen: Evidence, regime: Precision, sibling: Sibling | None) -> dict[str, Any]:
    """Of weights; and the batch at which the narrower ones give nothing, where the rate of their products is known."""
    ran, same = seen.decoder, seen.precision is not None and seen.precision.compute == regime.compute
    if ran is None:
        return {}
    roofs = roofs_of(sibling.seen.ceilings if sibling else seen.ceilings) if sibling or same else None
    before, after = float(weights_bytes(ran)), float(weights_bytes(ran, regime))
    return {
        "bytes_ratio": before / after, "saved_bytes": before - after, "batch": ran.batch,
        "until_batch": batch_at_flip(ran, roofs, regime) if roofs else None,
    }  # fmt: skip


def _bits(regime: Precision, kind: str) -> float:
    """Bits of what a narrower precision makes narrow: weights of inference, products of training."""
    return float(BITS[regime.compute] if kind == "training" else BITS[regime.classes("inference")["weights"]])


# Region of validity of a measured point: changes of batch, length, clock, precision or stack that end its conclusions.
#
# Ends are computed from the roofline of this run: where the bound flips, another resource decides, and nothing measured
# on this side of it says how fast the other side is.

_CODE = "region-ends"
_LONGEST = 1 << 20  # tokens of a prompt


def region(seen: Evidence) -> tuple[Finding, ...]:
    """A finding for each change that ends it; `at`: where, `now`: what was measured. The stack ends it at once."""
    return tuple(_ends(seen))


def _ends(seen: Evidence) -> Iterator[Finding]:
    ran, roofs = seen.decoder, roofs_of(seen.ceilings)
    if ran is not None and roofs is not None:
        yield from _of_steps(ran, roofs)
    elif seen.kind == "training":
        yield from _of_training(seen)
    elif seen.kind == "served":
        yield _end("load", {"needed": seen.slo_share})
    yield from _of_clock(seen)
    yield _end("precision", {"name": seen.precision.name if seen.precision else None})
    yield _end("stack", {})


def _of_steps(ran: Decoder, roofs: Roofs) -> Iterable[Finding]:
    at = batch_at_flip(ran, roofs)
    if at is not None:
        yield _end("batch", {"at": at, "now": ran.batch, "side": "compute" if ran.batch < at else "bandwidth"})
    context = context_at_cache(ran)
    if context is not None:
        longest = ran.shape.max_context
        yield _end("context", {"at": context, "now": ran.context, "beyond_model": context > longest, "most": longest})
    prompt = prompt_at_flip(ran, roofs)
    if prompt is not None:
        yield _end("prompt", {"at": prompt, "now": ran.prompt, "batch": ran.batch})


def prompt_at_flip(ran: Decoder, roofs: Roofs) -> int | None:
    """The shortest prompt whose prefill takes longer for its arithmetic than for its bytes; None where none does."""
    kept = widths(ran.shape, ran.precision)
    lengths = np.arange(1, min(_LONGEST, max(ran.shape.max_context, ran.prompt)) + 1)
    done = prefill_flop(ran.shape, lengths) * ran.batch / roofs.flop_per_s
    moved = prefill_bytes(ran.shape, lengths, ran.batch, kept.weight_bits, kept.kv_bytes, kept.head_bits)
    found = np.flatnonzero(done >= moved / roofs.bytes_per_s)
    return int(lengths[found[0]]) if found.size else None


def _of_training(seen: Evidence) -> Iterable[Finding]:
    at = samples_at_flip(seen.trained, seen.ceilings) if seen.trained else None
    if at is not None and seen.trained is not None:
        now = seen.trained.samples
        yield _end("samples", {"at": at, "now": now, "side": "bandwidth" if now > at else "compute"})


def _of_clock(seen: Evidence) -> Iterable[Finding]:
    """Matrix rates follow the clock and memory does not, so the ridge moves with it: it passes the phase at `times`."""
    busiest = max(seen.phases, key=lambda phase: seen.partition.parts.get(phase.part, 0.0))
    place = place_of(busiest, seen.ceilings)
    if place is None or not known(seen.ceilings, place.compute_ceiling):
        return
    yield _end("clock", {"times": place.intensity_high / place.ridge, "phase": busiest.name})


def _end(subject: str, numbers: dict[str, Any]) -> Finding:
    return Finding(_CODE, "notes", subject, numbers)
