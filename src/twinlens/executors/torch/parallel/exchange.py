"""The exchange of gradients, timed against the same backward pass without it, before any row. Needs torch."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function

from twinlens.executors.torch.device import between_ns, mark
from twinlens.executors.torch.model.build import synchronize
from twinlens.executors.torch.parallel.options import ELEMENT_BYTES
from twinlens.executors.torch.parallel.training import RankTraining
from twinlens.executors.torch.parallel.wrap import Buckets, set_sync

Span = tuple[float, float]


def covered(spans: Iterable[Span]) -> float:
    """Time that at least one of some spans covers."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def outside(spans: Iterable[Span], others: Iterable[Span]) -> float:
    """Time that spans cover and none of the others does."""
    known = list(others)
    return covered([*spans, *known]) - covered(known)


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


# One call under torch's profiler: its collectives, and how long they are under way while nothing computes. A profiled
# step is slower than others, so it is none of the rows.

_BACKENDS = ("gloo:", "nccl:")
_NCCL_KERNEL = re.compile(r"nccl\w*Kernel")
"""ncclKernel_… until 2.18, ncclDevKernel_… since, and ncclSymkDevKernel_… of symmetric memory."""
_COPIES = ("Memcpy", "Memset")
_BEGIN = "twinlens: all ranks are here"


@dataclass(frozen=True, slots=True)
class Overlap:
    """What one call did: collectives by name, and when (in seconds on one clock) any was under way and anything
    computed. On a GPU both are of its kernels alone: an annotation there is a name for some of them, and no work."""

    collectives: dict[str, int]
    flights: tuple[Span, ...]
    work: tuple[Span, ...]

    @property
    def flight_s(self) -> float:
        return covered(self.flights)

    @property
    def exposed_s(self) -> float:
        """Time under way with no computation beside it."""
        return outside(self.flights, self.work)


def profiled_step(training: RankTraining) -> dict[str, Any]:
    """Collectives of one step by name, and seconds in which they are under way, alone or beside an operator.

    Empty in a pipeline, where a transfer is under way from when a rank begins to wait for its neighbour.
    """
    if training.divided.pipeline is not None:
        return {}
    seen = overlap_of(training.step, training.device)
    return {"collectives": seen.collectives, "flight_s": seen.flight_s, "exposed_s": seen.exposed_s}


def overlap_of(call: Callable[[], Any], device: torch.device) -> Overlap:
    """Profile one call that all ranks begin together: a profiler starts in seconds here and at once there."""
    on_gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as trace:
        dist.barrier()
        synchronize(device)
        with record_function(_BEGIN):
            call()
        synchronize(device)
    return overlap_in(trace.events(), on_gpu=on_gpu)


def overlap_in(events: Iterable[Any], *, on_gpu: bool) -> Overlap:
    """The same from the profiler's events (torch.autograd.profiler_util.FunctionEvent). Pure."""
    known = list(events)
    from_us = min((each.time_range.start for each in known if each.name == _BEGIN), default=float("-inf"))
    collectives: Counter[str] = Counter()
    flights: list[Span] = []
    work: list[Span] = []
    for event in known:
        if event.time_range.start < from_us:
            continue
        of_device = event.device_type != torch.autograd.DeviceType.CPU
        if not of_device and event.name.startswith(_BACKENDS):
            collectives[event.name.partition(":")[2]] += 1
        if of_device != on_gpu or (of_device and event.is_user_annotation):
            continue
        span = event.time_range.start / 1e6, event.time_range.end / 1e6
        if _NCCL_KERNEL.match(event.name) if on_gpu else event.name.startswith(_BACKENDS):
            flights.append(span)
        elif not event.name.startswith(_COPIES) if on_gpu else event.name.startswith("aten::"):
            work.append(span)
    return Overlap(dict(collectives), tuple(sorted(flights)), tuple(work))


# One rank's part of a timed collective. On a processor: a barrier, then the exchange between two readings of the
# clock. On a GPU, as nccl-tests do: exchanges are queued back to back, and events on the stream time them, so that
# neither a barrier nor the host's launching is inside.

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
