"""The roofline (Williams, Waterman, Patterson 2009, doi 10.1145/1498765.1498785).

No work is faster than its FLOP or its bytes allow. Numbers may be arrays (theory/number.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.theory.number import Number, amount, choose, larger, rate, smaller

Binds = Literal["compute", "bandwidth"]


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time in seconds, and the roof that sets it. On the ridge itself, compute binds."""

    time_s: Number
    binds: Any
    """`Binds`, or an array of them."""


def ridge_point(flop_per_s: Number, bytes_per_s: Number) -> Number:
    """FLOP per byte above which compute binds and below which bandwidth does."""
    return rate("flop_per_s", flop_per_s) / rate("bytes_per_s", bytes_per_s)


def ridge_points(flop_per_s: Mapping[str, Number], bytes_per_s: Number) -> dict[str, Number]:
    """The ridge point of each precision of one device: the narrower the format, the farther to the right."""
    return {precision: ridge_point(peak, bytes_per_s) for precision, peak in flop_per_s.items()}


def intensity(flop: Number, bytes_moved: Number) -> Number:
    """FLOP done per byte moved. Raises BadInput when no byte moves, since the ratio then says nothing."""
    return flop / rate("bytes_moved", bytes_moved)


def attainable_flop_per_s(flop_per_byte: Number, flop_per_s: Number, bytes_per_s: Number) -> Number:
    """The roof above one intensity: min(peak, intensity × bandwidth)."""
    return smaller(
        rate("flop_per_s", flop_per_s), amount("flop_per_byte", flop_per_byte) * rate("bytes_per_s", bytes_per_s)
    )


def time_floor_s(flop: Number, bytes_moved: Number, flop_per_s: Number, bytes_per_s: Number) -> Floor:
    """max(flop / peak, bytes / bandwidth): a lower bound that assumes perfect overlap of the two."""
    compute_s = amount("flop", flop) / rate("flop_per_s", flop_per_s)
    memory_s = amount("bytes_moved", bytes_moved) / rate("bytes_per_s", bytes_per_s)
    return Floor(larger(compute_s, memory_s), choose(compute_s >= memory_s, "compute", "bandwidth"))


def compute_time_s(flop: Mapping[str, Number], flop_per_s: Mapping[str, Number]) -> Number:
    """Seconds of arithmetic done in several precisions, each at its own peak: Σ flop_p / peak_p.

    Raises BadInput for a precision without a peak.
    """
    for precision in flop:
        if precision not in flop_per_s:
            raise BadInput(f"no peak is known for {precision}; known: {', '.join(flop_per_s) or 'none'}")
    return sum(amount("flop", done) / rate("flop_per_s", flop_per_s[name]) for name, done in flop.items())


def batch_at_ridge(flop_per_s: Number, bytes_per_s: Number, bits_per_weight: Number = 16.0) -> Number:
    """Sequences at which decode turns from bandwidth- to compute-bound, KV traffic left out.

    Each weight is 2 FLOP per sequence and bits/8 bytes per step, so batch = ridge × bits / 16.
    """
    return ridge_point(flop_per_s, bytes_per_s) * rate("bits_per_weight", bits_per_weight) / 16
