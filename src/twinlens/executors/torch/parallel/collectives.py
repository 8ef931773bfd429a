"""Collectives over sizes, asked of ranks that are started for it. Needs no torch here."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from twinlens.executors.in_process.collective import Collectives, Timing
from twinlens.executors.protocol import Say
from twinlens.executors.torch.parallel.backend import REFUSED
from twinlens.executors.torch.parallel.gpus import refuse_too_few_gpus, usual_ranks
from twinlens.executors.torch.parallel.ranks import Ranks
from twinlens.spec.asked_device import asked_device
from twinlens.system.processors import usable_cores

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send")
SIZES = tuple(2**power for power in range(10, 25))
"""1 KiB to 16 MiB."""
_PATIENCE_S, _PAIR_BYTES, _PAIR_REPEATS = 180.0, 2**20, 15
_BUDGET_S, _LEAST, _MOST = 0.25, 7, 60


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
        timings = []
        for kind in (kind for kind in KINDS if kind not in refused):
            say(f"timing {kind}")
            timings += [_timed(world, kind, size) for size in SIZES]
        pairs = timed_pairs(world, ranks, say)
        return Collectives(backend, ranks, backend == "gloo", tuple(timings), refused, pairs, _PAIR_BYTES)
    finally:
        world.close()


def timed_pairs(world: Ranks, ranks: int, say: Say) -> dict[tuple[int, int], tuple[float, ...]]:
    """Seconds of exchanges between every two ranks, each pair alone; none of two ranks, which have one pair."""
    if ranks < 3:
        return {}
    say("timing pairs of ranks")
    return {pair: _pair(world, pair) for pair in combinations(range(ranks), 2)}


def _timed(world: Ranks, kind: str, size_bytes: int) -> Timing:
    """As many repetitions as a quarter of a second holds, 7 to 60."""
    order = {"order": "collective", "kind": kind, "size_bytes": size_bytes}
    first = _slowest(world.ask(order | {"repeats": 2}, f"timing {kind}"))
    repeats = min(_MOST, max(_LEAST, int(_BUDGET_S / max(min(first), 1e-6))))
    seconds = _slowest(world.ask(order | {"repeats": repeats}, f"timing {kind}"))
    return Timing(kind, size_bytes, seconds)


def _pair(world: Ranks, pair: tuple[int, int]) -> tuple[float, ...]:
    order = {"order": "pair", "ranks": pair, "size_bytes": _PAIR_BYTES, "repeats": _PAIR_REPEATS}
    told = world.ask(order, "timing pairs")
    return _slowest([told[rank] for rank in pair])


def _slowest(told: list[Any]) -> tuple[float, ...]:
    """Of each repetition, the slowest rank's time."""
    return tuple(max(each) for each in zip(*told, strict=True))
