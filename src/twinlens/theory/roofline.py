"""The roofline (Williams, Waterman, Patterson 2009, doi 10.1145/1498765.1498785).

No work is faster than its FLOP or its bytes allow. Numbers may be arrays (theory/number.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from twinlens.theory.number import Number, amount, choose, is_scalar, larger, rate, share, smaller

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


def batch_at_ridge(flop_per_s: Number, bytes_per_s: Number, bits_per_weight: Number = 16.0) -> Number:
    """Sequences at which decode turns from bandwidth- to compute-bound, KV traffic left out.

    Each weight is 2 FLOP per sequence and bits/8 bytes per step, so batch = ridge × bits / 16.
    """
    return ridge_point(flop_per_s, bytes_per_s) * rate("bits_per_weight", bits_per_weight) / 16


# Speculative decoding (Leviathan et al., arXiv 2211.17192).


def expected_tokens(acceptance: Number, drafted: Number) -> Number:
    """Tokens that one pass of the large model yields: (1 − a^(k+1)) / (1 − a), and k + 1 where all are accepted.

    `acceptance`: the share a of drafted tokens that are accepted, each independently. The pass itself adds one token.
    """
    a, k = share("acceptance", acceptance), amount("drafted", drafted)
    if is_scalar(a) and is_scalar(k):
        return k + 1.0 if a == 1 else (1 - a ** (k + 1)) / (1 - a)
    below = choose(a == 1, 0.5, a)  # never divide by zero
    return choose(a == 1, k + 1.0, (1 - below ** (k + 1.0)) / (1 - below))


def speed_up(acceptance: Number, drafted: Number, draft_cost: Number, check_cost: Number = 1.0) -> Number:
    """Tokens per second with speculation over those without.

    `draft_cost`: time of one draft token over that of an ordinary step. `check_cost`: time of a pass over k + 1 tokens
    per sequence over that of an ordinary step: 1 while weights bind, up to k + 1 where arithmetic does.
    """
    spent = amount("drafted", drafted) * amount("draft_cost", draft_cost) + rate("check_cost", check_cost)
    return expected_tokens(acceptance, drafted) / spent
