"""The exchange of gradients, timed against the same backward pass without it, before any row. Needs torch."""

from __future__ import annotations

import time
from typing import Any

import torch.distributed as dist

from twinlens.executors.torch.model.build import synchronize
from twinlens.executors.torch.parallel.training import RankTraining
from twinlens.executors.torch.parallel.wrap import set_sync


def exchange_times(training: RankTraining, pairs: int) -> dict[str, Any]:
    """Seconds of backward passes with and without the exchange, in turns, and of the exchanges themselves.

    `flight_s`: time in which at least one bucket was under way. Empty where no public hook tells (FSDP2, tensor
    parallel), and in a world of one.
    """
    buckets = training.divided.buckets
    if buckets is None or dist.get_world_size() == 1:
        return {}
    told: dict[str, Any] = {"with_s": [], "without_s": [], "flight_s": [], "bytes": 0, "buckets": 0}
    inputs, targets = training.batches.held_out(0)
    for _ in range(pairs):
        for is_exchanged in (True, False):
            set_sync(training.divided, is_exchanged)
            buckets.forget()
            loss = training.loss(inputs, targets)
            synchronize(training.device)
            dist.barrier()  # so that nobody waits for a rank whose forward pass took longer
            begin_s = time.perf_counter()
            loss.backward()
            synchronize(training.device)
            told["with_s" if is_exchanged else "without_s"].append(time.perf_counter() - begin_s)
            if is_exchanged:
                told["flight_s"].append(union_ns([(begin, end) for _, begin, end in buckets.flights]) / 1e9)
                told["bytes"] = sum(size for size, _, _ in buckets.flights)
                told["buckets"] = len(buckets.flights)
            training.optimizer.zero_grad(set_to_none=True)
    return told


def union_ns(spans: list[tuple[int, int]]) -> int:
    """Time that at least one of some spans covers."""
    covered, until = 0, -(2**63)
    for begin, end in sorted(spans):
        covered += max(0, end - max(begin, until))
        until = max(until, end)
    return covered
