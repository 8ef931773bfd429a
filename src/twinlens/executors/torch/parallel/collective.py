"""One rank's part of a timed collective: a barrier, then the exchange between two readings of the clock.

Needs torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from twinlens.executors.torch.model.build import synchronize

_WARM = 2
_ELEMENT = 4  # bytes of fp32


def timed(kind: str, size_bytes: int, repeats: int, device: torch.device) -> list[float]:
    """Seconds of each repetition on this rank, after two that are not counted."""
    run = _exchange(kind, size_bytes, device)
    return _clocked(run, repeats, device)


def timed_pair(
    ranks: tuple[int, int], size_bytes: int, repeats: int, device: torch.device, delay_s: float
) -> list[float]:
    """The same of two ranks that send each other a buffer while the others wait. `delay_s`: a fault that is injected,
    seconds that this rank waits before each of its exchanges."""
    mine, ours = dist.get_rank(), dist.get_rank() in ranks
    peer = ranks[1] if mine == ranks[0] else ranks[0]
    out, back = _buffer(size_bytes, device), _buffer(size_bytes, device)

    def run() -> None:
        if ours:
            time.sleep(delay_s) if delay_s else None
            _both_ways(out, back, peer, peer)

    return _clocked(run, repeats, device)


def _clocked(run: Callable[[], Any], repeats: int, device: torch.device) -> list[float]:
    seconds = []
    for _ in range(_WARM + repeats):
        dist.barrier()
        synchronize(device)
        begin_ns = time.perf_counter_ns()
        run()
        synchronize(device)
        seconds.append((time.perf_counter_ns() - begin_ns) / 1e9)
    return seconds[_WARM:]


def _exchange(kind: str, size_bytes: int, device: torch.device) -> Callable[[], Any]:
    world, rank = dist.get_world_size(), dist.get_rank()
    whole = _buffer(size_bytes, device)
    share = whole.chunk(world)[rank].clone()
    if kind == "all-reduce":
        return lambda: dist.all_reduce(whole)
    if kind == "all-gather":
        gather = _first(("all_gather_single", "all_gather_into_tensor"))
        return lambda: gather(whole, share)
    if kind == "reduce-scatter":
        scatter = _first(("reduce_scatter_single", "reduce_scatter_tensor"))
        return lambda: scatter(share, whole)
    back = torch.empty_like(whole)
    if kind == "all-to-all":
        return lambda: dist.all_to_all_single(back, whole)
    if kind == "broadcast":
        return lambda: dist.broadcast(whole, src=0)
    return lambda: _both_ways(whole, back, (rank + 1) % world, (rank - 1) % world)


def _both_ways(out: torch.Tensor, back: torch.Tensor, to: int, by: int) -> None:
    operations = [dist.P2POp(dist.isend, out, to), dist.P2POp(dist.irecv, back, by)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def _buffer(size_bytes: int, device: torch.device) -> torch.Tensor:
    """As many elements as every rank has a whole share of."""
    world = dist.get_world_size()
    return torch.ones(max(1, size_bytes // _ELEMENT // world) * world, device=device)


def _first(names: tuple[str, ...]) -> Callable[..., Any]:
    """torch 2.13 gave these new names and warns of the old ones."""
    found: Callable[..., Any] = next(getattr(dist, name) for name in names if hasattr(dist, name))
    return found
