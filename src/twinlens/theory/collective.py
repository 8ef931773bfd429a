"""Collectives: bandwidth as nccl-tests define it, time by ring or tree, and bytes that each split of training moves.

nccl-tests: doc/PERFORMANCE.md. Ring and tree costs: Thakur et al. 2005, doi 10.1177/1094342005051521. All numbers may
be arrays (theory/number.py). Bytes are those through one rank, in each direction.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from twinlens.errors import BadInput, nearest
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.workload.workload import BUS_PARTS
from twinlens.theory.number import Number, amount, choose, count, is_scalar, rate

Kind = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "send"]
Algorithm = Literal["ring", "tree"]


def bus_factor(kind: Kind, ranks: Number) -> Number:
    """Bus bandwidth over algorithm bandwidth. Raises BadInput for an unknown collective.

    The size is the whole buffer; for an all-gather or reduce-scatter that of all ranks together.
    """
    if kind not in get_args(Kind):
        raise BadInput(f"unknown collective {kind!r}; {nearest(kind, get_args(Kind))}")
    many = count("ranks", ranks)
    return BUS_PARTS[kind](many) if kind in BUS_PARTS else choose(many > 1, 1.0, 0.0)


def algorithm_bandwidth(size_bytes: Number, time_s: Number) -> Number:
    """Bytes per second: size over time."""
    return amount("size_bytes", size_bytes) / rate("time_s", time_s)


def bus_bandwidth(kind: Kind, size_bytes: Number, time_s: Number, ranks: Number) -> Number:
    """Bytes per second that a link carries in one direction, comparable between numbers of ranks and with its peak."""
    return algorithm_bandwidth(size_bytes, time_s) * bus_factor(kind, ranks)


def collective_time_s(
    kind: Kind,
    size_bytes: Number,
    ranks: Number,
    bus_bytes_per_s: Number,
    hop_s: Number = 0.0,
    algorithm: Algorithm = "ring",
) -> Number:
    """Seconds: hops times latency, and bytes over bandwidth.

    An all-reduce by ring takes 2·(n − 1) hops, by (double binary) tree 2·log₂ n, at the same bandwidth; the others take
    half of that. One rank exchanges nothing.
    """
    if algorithm not in get_args(Algorithm):
        raise BadInput(f"unknown algorithm {algorithm!r}; {nearest(algorithm, get_args(Algorithm))}")
    many = count("ranks", ranks)
    hops = many - 1 if algorithm == "ring" else _levels(many)
    if kind == "send":
        hops = choose(many > 1, 1, 0)
    moved = amount("size_bytes", size_bytes) * bus_factor(kind, many)
    passes = 2 if kind == "all-reduce" else 1
    return passes * hops * amount("hop_s", hop_s) + moved / rate("bus_bytes_per_s", bus_bytes_per_s)


def _levels(many: Number) -> Number:
    """Levels of a tree over so many ranks: log₂ n, rounded up."""
    if is_scalar(many):
        return math.ceil(math.log2(many))
    import numpy as np

    return np.ceil(np.log2(many))


def tensor_parallel_bytes(
    shape: DecoderShape, tokens: Number, ranks: Number, bytes_per_element: Number = 2.0, *, training: bool = True
) -> Number:
    """All-reduces of tokens × hidden: two per layer forward, two backward (Megatron, arXiv 1909.08053)."""
    each = amount("tokens", tokens) * shape.hidden * rate("bytes_per_element", bytes_per_element)
    return (4 if training else 2) * shape.layers * each * bus_factor("all-reduce", ranks)
