"""Region of validity of a measured point: changes of batch, length, clock, precision or stack that end its conclusions.

Ends are computed from the roofline of this run: where the bound flips, another resource decides, and nothing measured
on this side of it says how fast the other side is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from twinlens.diagnosis.decoder import Decoder, Roofs, roofs_of
from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.flip import batch_at_flip, context_at_cache, samples_at_flip
from twinlens.diagnosis.phase import known, place_of
from twinlens.record.finding import Finding
from twinlens.theory.flop import prefill_flop
from twinlens.theory.traffic import prefill_bytes
from twinlens.theory.width import widths

_CODE = "region-ends"
_LONGEST = 1 << 20  # tokens of a prompt


def region(seen: Evidence) -> tuple[Finding, ...]:
    """A finding for each change that ends it; `at`: where, `now`: what was measured. The stack ends it at once."""
    return tuple(_ends(seen))


def _ends(seen: Evidence) -> Iterator[Finding]:
    ran, roofs = seen.decoder, roofs_of(seen.ceilings)
    if ran is not None and roofs is not None:
        yield from _of_decoder(ran, roofs)
    elif seen.kind == "training":
        yield from _of_training(seen)
    elif seen.kind == "served":
        yield _end("load", {"needed": seen.slo_share})
    yield from _of_clock(seen)
    yield _end("precision", {"name": seen.precision.name if seen.precision else None})
    yield _end("stack", {})


def _of_decoder(ran: Decoder, roofs: Roofs) -> Iterable[Finding]:
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
