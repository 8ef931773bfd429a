"""Exchanges beside a step: gradients in buckets beside backward, weights gathered ahead of forward, what stays exposed.

Not modelled: computing that is slowed down by an exchange beside it, and exchanges that share a link with others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.errors import BadInput
from twinlens.simulation.work import Floats
from twinlens.theory.collective import Algorithm, Kind, collective_time_s


@dataclass(frozen=True, slots=True)
class Link:
    """What an exchange takes among ranks: latency of a hop, and bytes over the bus (theory/collective.py)."""

    ranks: int
    bus_bytes_per_s: float
    hop_s: float = 0.0
    algorithm: Algorithm = "ring"

    def seconds(self, kind: Kind, size_bytes: Floats | float) -> Floats:
        """Seconds of exchanges, [n] as `size_bytes` is."""
        taken = collective_time_s(kind, size_bytes, self.ranks, self.bus_bytes_per_s, self.hop_s, self.algorithm)
        return np.asarray(taken, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Exposed:
    """Exchanges one after another on one stream. Shapes: (exchanges,); seconds from the start of what they are beside.

    `exposed_s`: time in which only an exchange goes on.
    """

    begin_s: Floats
    end_s: Floats
    exposed_s: float

    @property
    def total_s(self) -> float:
        return float((self.end_s - self.begin_s).sum())


def buckets(layer_bytes: Floats, layer_s: Floats, bucket_bytes: float, first_bytes: float) -> tuple[Floats, Floats]:
    """When each bucket of gradients is ready and its bytes, [buckets] both; layers [n] in the order of backward.

    As PyTorch's DistributedDataParallel fills them (`bucket_cap_mb` 25; the first 1 MiB): a bucket is full as soon as
    it holds its bytes, and a layer is not divided.
    """
    if len(layer_bytes) != len(layer_s) or not len(layer_bytes) or min(bucket_bytes, first_bytes) <= 0:
        raise BadInput("buckets need a size above 0, and the bytes and the seconds of each layer")
    done_s, ready, sizes, held = np.cumsum(layer_s), list[float](), list[float](), 0.0
    for place, size in enumerate(np.asarray(layer_bytes, dtype=np.float64).tolist()):
        held += size
        is_full = held >= (bucket_bytes if sizes else first_bytes)
        if is_full or place == len(layer_bytes) - 1:
            ready.append(float(done_s[place]))
            sizes.append(held)
            held = 0.0
    return np.array(ready), np.array(sizes)


def beside(ready_s: Floats, lasts_s: Floats, computes_s: float) -> Exposed:
    """Exchanges that begin when they are ready and the one before has ended, beside computing of `computes_s`."""
    ready, lasts = np.asarray(ready_s, dtype=np.float64), np.asarray(lasts_s, dtype=np.float64)
    if ready.shape != lasts.shape or not np.isfinite([*ready, *lasts]).all() or (lasts < 0).any() or (ready < 0).any():
        raise BadInput("an exchange is ready at, and lasts, seconds that are finite and not negative")
    sums = np.cumsum(lasts)
    # The end of exchange k is the latest of: ready j, and then all of j … k on end.
    end = np.maximum.accumulate(ready - np.concatenate([[0.0], sums[:-1]])) + sums if len(ready) else sums
    last_s = float(end[-1]) if len(end) else 0.0
    return Exposed(end - lasts, end, max(0.0, last_s - computes_s))


def gathered(layer_s: Floats, gather_s: Floats, ahead: int = 1) -> Exposed:
    """Weights gathered before each layer, [layers] both, at most `ahead` layers before it is at work (FSDP prefetch).

    The first gather is beside nothing.
    """
    if len(layer_s) != len(gather_s) or ahead < 0:
        raise BadInput("a gather needs the seconds of each layer and of its weights, and layers ahead of 0 or more")
    begins, ends, works = list[float](), list[float](), [0.0]  # works: the end of each layer, after 0 for none
    for place, (work_s, moved_s) in enumerate(zip(list(layer_s), list(gather_s), strict=True)):
        may_s = works[max(0, place - ahead)]
        begins.append(max(may_s, ends[-1] if ends else 0.0))
        ends.append(begins[-1] + moved_s)
        works.append(max(works[-1], ends[-1]) + work_s)
    return Exposed(np.array(begins), np.array(ends), max(0.0, works[-1] - float(np.sum(layer_s))))
