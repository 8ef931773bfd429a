"""The roofline (Williams, Waterman, Patterson 2009): no work is faster than its FLOP or its bytes allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinlens.errors import BadInput

Binds = Literal["compute", "bandwidth"]


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time in seconds, and the roof that sets it. On the ridge itself, compute binds."""

    time_s: float
    binds: Binds


def ridge_point(flop_per_s: float, bytes_per_s: float) -> float:
    """FLOP per byte above which compute binds and below which bandwidth does."""
    _rates(flop_per_s=flop_per_s, bytes_per_s=bytes_per_s)
    return flop_per_s / bytes_per_s


def intensity(flop: float, bytes_moved: float) -> float:
    """FLOP done per byte moved. Raises BadInput when no byte moves, since the ratio then says nothing."""
    _rates(bytes_moved=bytes_moved)
    return flop / bytes_moved


def attainable_flop_per_s(flop_per_byte: float, flop_per_s: float, bytes_per_s: float) -> float:
    """The roof above one intensity: min(peak, intensity × bandwidth)."""
    _rates(flop_per_s=flop_per_s, bytes_per_s=bytes_per_s)
    return min(flop_per_s, flop_per_byte * bytes_per_s)


def time_floor_s(flop: float, bytes_moved: float, flop_per_s: float, bytes_per_s: float) -> Floor:
    """max(flop / peak, bytes / bandwidth): a lower bound that assumes perfect overlap of the two."""
    _rates(flop_per_s=flop_per_s, bytes_per_s=bytes_per_s)
    if flop < 0 or bytes_moved < 0:
        raise BadInput("neither FLOP nor bytes can be negative")
    compute_s, memory_s = flop / flop_per_s, bytes_moved / bytes_per_s
    return Floor(compute_s, "compute") if compute_s >= memory_s else Floor(memory_s, "bandwidth")


def batch_at_ridge(flop_per_s: float, bytes_per_s: float, bits_per_weight: float = 16.0) -> float:
    """Sequences at which decode turns from bandwidth- to compute-bound, KV traffic left out.

    Each weight is 2 FLOP per sequence and bits/8 bytes per step, so batch = ridge × bits / 16.
    """
    _rates(bits_per_weight=bits_per_weight)
    return ridge_point(flop_per_s, bytes_per_s) * bits_per_weight / 16


def _rates(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise BadInput(f"{name} must be above 0, not {number}")
