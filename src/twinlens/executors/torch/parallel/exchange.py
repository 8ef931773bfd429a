"""The exchange of gradients, timed against the same backward pass without it, before any row. Needs torch."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from twinlens.executors.torch.model.build import synchronize
from twinlens.executors.torch.parallel.profiled import Overlap, overlap_of
from twinlens.executors.torch.parallel.spans import covered
from twinlens.executors.torch.parallel.training import RankTraining
from twinlens.executors.torch.parallel.wrap import Buckets, set_sync


def exchange_times(training: RankTraining, pairs: int) -> dict[str, Any]:
    """How long gradients are under way in a backward pass, and how long it waits for them.

    On a processor: seconds of backward passes with and without the exchange, in turns, and `flight_s` of each. On a
    GPU, whose futures are done when they are enqueued: `flight_s` and `exposed_s` of the kernels of one profiled pass.
    `flight_s`: time in which at least one bucket was under way. `flights`: the buckets of the last exchange as (index,
    bytes, begin, end), in seconds from the beginning of its backward pass. Empty where no public hook tells (all but
    DDP), and in a world of one.
    """
    buckets = training.divided.buckets
    if buckets is None or dist.get_world_size() == 1:
        return {}
    inputs, targets = training.batches.held_out(0)

    def loss(is_exchanged: bool) -> torch.Tensor:
        set_sync(training.divided, is_exchanged)
        buckets.forget()
        found = training.loss(inputs, targets)
        synchronize(training.device)
        return found

    if training.device.type == "cuda":
        loss(True).backward()  # the first exchange of a size sets NCCL up for it
        told = by_kernels(overlap_of(loss(True).backward, training.device), buckets)
    else:
        told = _by_turns(training, buckets, loss, pairs)
    training.optimizer.zero_grad(set_to_none=True)
    return told


def by_kernels(seen: Overlap, buckets: Buckets) -> dict[str, Any]:
    """What the kernels of one backward pass say. Buckets are named where each is one kernel, in the order in which they
    left. Pure."""
    left = buckets.flights
    begin_s = min((begin for begin, _ in (*seen.flights, *seen.work)), default=0.0)
    named = zip(left, seen.flights, strict=True) if len(left) == len(seen.flights) else ()
    return {
        "flight_s": seen.flight_s,
        "exposed_s": seen.exposed_s,
        "bytes": sum(each.bytes for each in left),
        "buckets": len(left),
        "flights": [(each.index, each.bytes, begin - begin_s, end - begin_s) for each, (begin, end) in named],
    }


def _by_turns(training: RankTraining, buckets: Buckets, loss: Any, pairs: int) -> dict[str, Any]:
    told: dict[str, Any] = {"with_s": [], "without_s": [], "flight_s": []}
    for _ in range(pairs):
        for is_exchanged in (True, False):
            value = loss(is_exchanged)
            dist.barrier()  # so that nobody waits for a rank whose forward pass took longer
            begin_ns = time.monotonic_ns()
            value.backward()
            told["with_s" if is_exchanged else "without_s"].append((time.monotonic_ns() - begin_ns) / 1e9)
            if is_exchanged:
                told["flight_s"].append(covered((each.begin_ns, each.end_ns) for each in buckets.flights) / 1e9)
                told["bytes"] = sum(each.bytes for each in buckets.flights)
                told["buckets"] = len(buckets.flights)
                told["flights"] = [
                    (each.index, each.bytes, (each.begin_ns - begin_ns) / 1e9, (each.end_ns - begin_ns) / 1e9)
                    for each in sorted(buckets.flights, key=lambda flight: flight.index)
                ]
            training.optimizer.zero_grad(set_to_none=True)
    return told
