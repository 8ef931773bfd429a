"""One rank's part of a timed collective. Needs torch.

On a processor: a barrier, then the exchange between two readings of the clock. On a GPU, as nccl-tests do: exchanges
are queued back to back, and events on the stream time them, so that neither a barrier nor the host's launching is
inside.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist

from twinlens.executors.torch.marks import between_ns, mark
from twinlens.executors.torch.model.build import synchronize
from twinlens.executors.torch.parallel.backend import ELEMENT_BYTES

_WARM = 2


def timed(kind: str, size_bytes: int, repeats: int, together: int, device: torch.device) -> list[float]:
    """Seconds of one exchange in each repetition on this rank, after two that are not counted; on a GPU the mean of
    `together` exchanges back to back."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what the size before took is in pieces of another size
    run = exchange_of(kind, size_bytes, device)
    if device.type != "cuda":
        return _clocked(run, repeats, device)
    return [queued(run, together, device, each=False)[0][1] / 1e9 / together for _ in range(_WARM + repeats)][_WARM:]


def stamped(run: Callable[[], Any], count: int, device: torch.device) -> list[tuple[int, int]]:
    """Begin and end of each of `count` exchanges on this rank, in ns on the monotonic clock: on a processor with a
    barrier before each; on a GPU one after the other, by events between them that end when the host sees the last."""
    if device.type != "cuda":
        return [_between_clocks(run) for _ in range(count)]
    spans = queued(run, count, device, each=True)
    begun_ns = time.monotonic_ns() - spans[-1][1]
    return [(begun_ns + begin, begun_ns + end) for begin, end in spans]


def queued(run: Callable[[], Any], count: int, device: torch.device, *, each: bool) -> list[tuple[int, int]]:
    """Begin and end in ns of `count` exchanges that are queued behind one another on the device's stream, of all
    together unless `each`. One that is not counted goes first: behind it the host launches ahead of the device."""
    dist.barrier()
    synchronize(device)
    run()
    marks = [mark(device)]
    for number in range(count):
        run()
        if each or number == count - 1:
            marks.append(mark(device))
    synchronize(device)
    at = [between_ns(marks[0], reached) for reached in marks]
    return list(pairwise(at))


def _between_clocks(run: Callable[[], Any]) -> tuple[int, int]:
    dist.barrier()
    begin_ns = time.monotonic_ns()
    run()
    return begin_ns, time.monotonic_ns()


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
    return [(end - begin) / 1e9 for begin, end in stamped(run, _WARM + repeats, device)[_WARM:]]


def exchange_of(kind: str, size_bytes: int, device: torch.device) -> Callable[[], Any]:
    """One exchange of this rank, with buffers of its own."""
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
    return torch.ones(max(1, size_bytes // ELEMENT_BYTES // world) * world, device=device)


def _first(names: tuple[str, ...]) -> Callable[..., Any]:
    """torch 2.13 gave these new names and warns of the old ones."""
    found: Callable[..., Any] = next(getattr(dist, name) for name in names if hasattr(dist, name))
    return found
