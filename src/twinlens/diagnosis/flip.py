"""Points at which a bound flips: the batch where arithmetic binds, the context where the cache is most of the bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from twinlens.diagnosis.decoder import Decoder, Roofs, cache_bytes, linear_bytes, weights_bytes
from twinlens.diagnosis.phase import known
from twinlens.record.estimate import Estimate
from twinlens.spec.precision import Precision
from twinlens.theory.flop import decode_flop


def batch_at_flip(ran: Decoder, roofs: Roofs, precision: Precision | None = None) -> float | None:
    """The batch from which arithmetic takes longer than bytes in a decode step; None where the cache keeps bytes ahead.

    Arithmetic and cache grow with the batch, weights do not: b·c = max((W + b·k) / read, L / matvec), with c seconds of
    arithmetic, k cache bytes and L mat-vec bytes of one sequence, W bytes of weights. Experts: as for one sequence.
    """
    arithmetic = float(decode_flop(ran.shape, ran.context)) / roofs.flop_per_s
    cache = float(cache_bytes(ran, 1, precision, ran.context)) / roofs.bytes_per_s
    weights = float(weights_bytes(ran, precision)) / roofs.bytes_per_s
    if arithmetic <= cache:
        return None
    linear = linear_bytes(ran, precision)
    by_kernels = linear / roofs.matvec / arithmetic if linear and roofs.matvec else 0.0
    return max(weights / (arithmetic - cache), by_kernels)


def context_at_cache(ran: Decoder, batch: int | None = None) -> float | None:
    """The tokens of context at which a decode step reads more cache than weights; None where the cache has an end
    (windows, recurrent layers) below that."""
    many = ran.batch if batch is None else batch
    weights = float(weights_bytes(ran, None, many))

    def excess(tokens: float) -> float:
        return float(cache_bytes(ran, many, None, tokens)) - weights

    low, high = 1.0, 2.0
    while excess(high) < 0:
        low, high = high, 2 * high
        if high > 1e12:
            return None
    if excess(low) >= 0:
        return low
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) >= 0 else (middle, high)
    return math.ceil(high)


@dataclass(frozen=True, slots=True)
class Trained:
    """A training step as work per sample: FLOP, bytes that grow with the samples, and bytes that do not."""

    samples: int
    flop: float
    fixed_bytes: float
    sample_bytes: float


def samples_at_flip(ran: Trained, ceilings: Mapping[str, Estimate]) -> float | None:
    """The samples of a step from which arithmetic takes longer than bytes: n·c = (F + n·a) / copy. None where none."""
    peak = known(ceilings, "matrix_flop_per_s_at") or known(ceilings, "matrix_flop_per_s")
    rate = known(ceilings, "copy_bytes_per_s") or known(ceilings, "read_bytes_per_s")
    if peak is None or rate is None:
        return None
    left = ran.flop / peak - ran.sample_bytes / rate
    return ran.fixed_bytes / rate / left if left > 0 else None
