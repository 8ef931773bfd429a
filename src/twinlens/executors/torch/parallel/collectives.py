"""Collectives over sizes, asked of ranks that are started for it. Needs no torch here."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from twinlens.executors.in_process.ceiling import Collectives, Timing
from twinlens.executors.protocol import Say
from twinlens.executors.torch.parallel.backend import REFUSED
from twinlens.executors.torch.parallel.gpus import refuse_too_few_gpus, usual_ranks
from twinlens.executors.torch.parallel.ranks import Ranks
from twinlens.spec.asked_device import asked_device
from twinlens.system.processors import usable_cores

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send")
SIZES = tuple(2**power for power in range(10, 25))
"""1 KiB to 16 MiB, on a processor."""
_MOST_POWER, _ROOM = 33, 0.4
"""On GPUs to 8 GiB, or to what 40 % of the fullest one's free memory holds: an exchange has two buffers at most."""
_PATIENCE_S, _PAIR_REPEATS = 180.0, 15
_PAIR_BYTES, _PAIR_ON_GPU = 2**20, 2**28
"""On a GPU as much as hides what a launch takes: of 1 MiB a link at half its speed looks like any other."""
_BUDGET_S, _LEAST, _MOST = 0.25, 7, 60
_TOGETHER_S, _MOST_TOGETHER = 0.02, 20
"""Exchanges that a GPU does back to back: so many that they last this long, 20 at most, as nccl-tests does."""


def probe_collectives(device: str, asked: int | None, say: Say) -> Collectives:
    """Time them among `asked` processes: one per GPU, or on the processor; None: as many as there are GPUs, or two.

    Raises BadInput (TL208) for a device that is not here and for fewer GPUs, ExecutorFailed (TL307) where a rank is
    lost.
    """
    ranks = usual_ranks(asked_device(device)) if asked is None else asked
    refuse_too_few_gpus(asked_device(device), ranks)
    say(f"starting {ranks} ranks")
    world = Ranks(ranks, max(1, usable_cores() // ranks), _PATIENCE_S)
    try:
        backend = world.ask({"order": "join", "device": device, "patience_s": _PATIENCE_S}, "starting", say)[0]
        refused = REFUSED.get(backend, {})
        timings, sizes = [], sizes_for(backend, _room(world))
        for kind in (kind for kind in KINDS if kind not in refused):
            say(f"timing {kind}")
            timings += [_timed(world, kind, size) for size in sizes]
        pairs, pair_bytes = timed_pairs(world, ranks, backend, say)
        return Collectives(backend, ranks, backend == "gloo", tuple(timings), refused, pairs, pair_bytes)
    finally:
        world.close()


def sizes_for(backend: str, free_bytes: float) -> tuple[int, ...]:
    """Sizes in bytes, each twice the one before: to 16 MiB on a processor, on GPUs to where bandwidth no longer rises.
    Pure."""
    if backend == "gloo":
        return SIZES
    sizes = tuple(2**power for power in range(SIZES[0].bit_length() - 1, _MOST_POWER + 1))
    return tuple(size for size in sizes if size <= max(SIZES[-1], _ROOM * free_bytes))


def timed_pairs(
    world: Ranks, ranks: int, backend: str, say: Say
) -> tuple[dict[tuple[int, int], tuple[float, ...]], int]:
    """Seconds of exchanges between every two ranks, each pair alone, and their bytes; none of two ranks, which have one
    pair."""
    most = _PAIR_BYTES if backend == "gloo" else _PAIR_ON_GPU
    size = max(each for each in sizes_for(backend, _room(world)) if each <= most)
    if ranks < 3:
        return {}, size
    say("timing pairs of ranks")
    return {pair: _pair(world, pair, size) for pair in combinations(range(ranks), 2)}, size


def _room(world: Ranks) -> float:
    return float(min(world.ask({"order": "room"}, "reading free memory")))


def _timed(world: Ranks, kind: str, size_bytes: int) -> Timing:
    """As many repetitions as a quarter of a second holds, 7 to 60."""
    order = {"order": "collective", "kind": kind, "size_bytes": size_bytes, "together": 1}
    first_s = max(min(_slowest(world.ask(order | {"repeats": 2}, f"timing {kind}"))), 1e-6)
    together = min(_MOST_TOGETHER, max(1, int(_TOGETHER_S / first_s)))
    repeats = min(_MOST, max(_LEAST, int(_BUDGET_S / (first_s * together))))
    order["together"] = together
    seconds = _slowest(world.ask(order | {"repeats": repeats}, f"timing {kind}"))
    return Timing(kind, size_bytes, seconds)


def _pair(world: Ranks, pair: tuple[int, int], size_bytes: int) -> tuple[float, ...]:
    order = {"order": "pair", "ranks": pair, "size_bytes": size_bytes, "repeats": _PAIR_REPEATS}
    told = world.ask(order, "timing pairs")
    return _slowest([told[rank] for rank in pair])


def _slowest(told: list[Any]) -> tuple[float, ...]:
    """Of each repetition, the slowest rank's time."""
    return tuple(max(each) for each in zip(*told, strict=True))
