"""The exchange of gradients, timed against the same backward pass without it, before any row. Needs torch."""

from __future__ import annotations

import time
from typing import Any

import torch.distributed as dist

from twinlens.executors.torch.model.build import synchronize
from twinlens.executors.torch.parallel.spans import covered
from twinlens.executors.torch.parallel.training import RankTraining
from twinlens.executors.torch.parallel.wrap import set_sync


def exchange_times(training: RankTraining, pairs: int) -> dict[str, Any]:
    """Seconds of backward passes with and without the exchange, in turns, and of the exchanges themselves.

    `flight_s`: time in which at least one bucket was under way. `flights`: the buckets of the last exchange as (index,
    bytes, begin, end), in seconds from the beginning of its backward pass. Empty where no public hook tells (all but
    DDP), and in a world of one.
    """
    buckets = training.divided.buckets
    if buckets is None or dist.get_world_size() == 1:
        return {}
    told: dict[str, Any] = {"with_s": [], "without_s": [], "flight_s": [], "bytes": 0, "flights": []}
    inputs, targets = training.batches.held_out(0)
    for _ in range(pairs):
        for is_exchanged in (True, False):
            set_sync(training.divided, is_exchanged)
            buckets.forget()
            loss = training.loss(inputs, targets)
            synchronize(training.device)
            dist.barrier()  # so that nobody waits for a rank whose forward pass took longer
            begin_ns = time.monotonic_ns()
            loss.backward()
            synchronize(training.device)
            told["with_s" if is_exchanged else "without_s"].append((time.monotonic_ns() - begin_ns) / 1e9)
            if is_exchanged:
                told["flight_s"].append(covered((each.begin_ns, each.end_ns) for each in buckets.flights) / 1e9)
                told["bytes"] = sum(each.bytes for each in buckets.flights)
                told["flights"] = [
                    (each.index, each.bytes, (each.begin_ns - begin_ns) / 1e9, (each.end_ns - begin_ns) / 1e9)
                    for each in sorted(buckets.flights, key=lambda flight: flight.index)
                ]
            training.optimizer.zero_grad(set_to_none=True)
    return told
