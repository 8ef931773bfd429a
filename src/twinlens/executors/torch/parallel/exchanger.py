"""Exchanges of one kind and size as a run: ranks that are started for it, asked for some at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from twinlens.executors.in_process.ceiling import Collectives, Timing, slow_links
from twinlens.executors.protocol import Say
from twinlens.executors.torch.parallel.options import REFUSED, ExchangeOptions, refuse_exchange
from twinlens.executors.torch.parallel.over_ranks import facts_over
from twinlens.executors.torch.parallel.ranks import (
    Ranks,
    on_processor,
    program_on,
    ranks_of,
    refuse_too_few_gpus,
    usual_ranks,
)
from twinlens.record.codec import decode
from twinlens.record.executor.facts import Facts
from twinlens.record.finding import Finding
from twinlens.record.step import Exchange
from twinlens.spec.device import asked_device
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import CollectiveWorkload
from twinlens.system.processes import usable_cores

_ORDER_S, _MOST = 0.2, 2000
"""How long the exchanges of one order last together, and how many they are at most."""
_MOST_PAIRED = 16
"""Ranks of which every pair is timed before the rows: 120 pairs. All ranks wait for a slow one in every row, so the
rows cannot name it."""


class TorchExchanger:
    """One process here, and the ranks below it: this one takes no part in any exchange."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        workload = spec.workload
        assert isinstance(workload, CollectiveWorkload)
        asked = ExchangeOptions.of(spec.executor.options)
        if not asked.on:
            refuse_too_few_gpus(spec.device, asked.ranks)
            if on_processor(spec.device):  # before ranks are started, which takes a minute
                refuse_exchange("gloo", workload.exchange)
        self._ranks = ranks_of(spec, asked, program_on(spec, asked.on), say)
        join = {"order": "join", "device": spec.executor.device, "patience_s": asked.patience_s}
        backend = self._ranks.ask(join, "starting", say)[0]
        refuse_exchange(backend, workload.exchange)
        pairs = timed_pairs(self._ranks, asked.ranks, backend, say)[0] if asked.ranks <= _MOST_PAIRED else {}
        slow = slow_links(pairs, on_processor=backend == "gloo")
        say(f"warming up {workload.exchange}")
        told = self._ranks.ask(
            {"order": "open-exchange", "kind": workload.exchange, "size_bytes": workload.size_bytes}, "opening"
        )
        self._count, self._origin_ns = 1, -1
        facts = facts_over([decode(Facts, each) for each in told], split=1)
        shares = backend == "gloo" and self._ranks.share_a_clock
        found = Finding("exchange-on-processor", "notes", workload.exchange, {"ranks": asked.ranks})
        return replace(facts, findings=(*facts.findings, *slow, *([found] if shares else ())))

    def exchange(self) -> tuple[Exchange, ...]:
        begun_ns = time.monotonic_ns()
        told = self._ranks.ask({"order": "exchange", "count": self._count}, "exchanging")
        lasted_s = (time.monotonic_ns() - begun_ns) / 1e9
        if self._origin_ns < 0:
            self._origin_ns = begun_ns if self._ranks.share_a_clock else told[0][0][0]
        rows = rows_of(told, self._origin_ns, one_clock=self._ranks.share_a_clock)
        wanted = self._count * _ORDER_S / max(lasted_s, 1e-6)
        self._count = int(min(_MOST, max(1, wanted, self._count / 4), self._count * 4))
        return rows

    @property
    def first_pids(self) -> Sequence[int]:
        """The processes of this machine below which all others that do the work are."""
        return self._ranks.first_pids

    def close(self) -> None:
        if ranks := getattr(self, "_ranks", None):
            ranks.close()


def rows_of(told: Sequence[Any], origin_ns: int, *, one_clock: bool) -> tuple[Exchange, ...]:
    """Rows of what each rank stamped, (begin, end) of each exchange by rank. Pure.

    Without `one_clock` an exchange begins as on rank 0's clock and lasts as long as the slowest rank's.
    """
    rows = []
    for stamps in zip(*told, strict=True):
        taken = tuple(end - begin for begin, end in stamps)
        begin_ns = min(begin for begin, _ in stamps) if one_clock else stamps[0][0]
        end_ns = max(end for _, end in stamps) if one_clock else begin_ns + max(taken)
        rows.append(Exchange(begin_ns - origin_ns, end_ns - origin_ns, taken))
    return tuple(rows)


# Collectives over sizes, asked of ranks that are started for it.

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send")
SIZES = tuple(2**power for power in range(10, 25))
"""1 KiB to 16 MiB, on a processor."""
_MOST_POWER, _ROOM = 33, 0.4
"""On GPUs to 8 GiB, or to what 40 % of the fullest one's free memory holds: an exchange has two buffers at most."""
_PROBE_PATIENCE_S, _PAIR_REPEATS = 180.0, 15
_PAIR_BYTES, _PAIR_ON_GPU = 2**20, 2**28
"""On a GPU as much as hides what a launch takes: of 1 MiB a link at half its speed looks like any other."""
_BUDGET_S, _LEAST_REPEATS, _MOST_REPEATS = 0.25, 7, 60
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
    world = Ranks(ranks, max(1, usable_cores() // ranks), _PROBE_PATIENCE_S)
    try:
        backend = world.ask({"order": "join", "device": device, "patience_s": _PROBE_PATIENCE_S}, "starting", say)[0]
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
    repeats = min(_MOST_REPEATS, max(_LEAST_REPEATS, int(_BUDGET_S / (first_s * together))))
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
