"""Collectives as an executor timed them: seconds by kind and size, and what its backend cannot be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Timing:
    """One collective at one size. `size_bytes` as nccl-tests count it: the buffer, or the whole of all ranks' shares;
    `seconds`: of each repetition, the slowest rank's."""

    kind: str
    size_bytes: int
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Collectives:
    """Timings of one world. `refused`: kinds that this backend does not really have, with the reason. `pairs`: seconds
    of an exchange of `pair_bytes` between two ranks alone, each way at once; empty for a world of two."""

    backend: str
    ranks: int
    on_processor: bool
    timings: tuple[Timing, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    pairs: Mapping[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)
    pair_bytes: int = 0
