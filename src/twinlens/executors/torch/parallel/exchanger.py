"""Exchanges of one kind and size as a run: ranks that are started for it, asked for some at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twinlens.executors.in_process.ceiling import slow_links
from twinlens.executors.protocol import Say
from twinlens.executors.torch.parallel.backend import refuse_exchange
from twinlens.executors.torch.parallel.collectives import timed_pairs
from twinlens.executors.torch.parallel.exchange_options import ExchangeOptions
from twinlens.executors.torch.parallel.gpus import on_processor, refuse_too_few_gpus
from twinlens.executors.torch.parallel.over_ranks import facts_over
from twinlens.executors.torch.parallel.program import Program
from twinlens.executors.torch.parallel.ranks import Ranks
from twinlens.record.codec import decode
from twinlens.record.executor.facts import Facts
from twinlens.record.finding import Finding
from twinlens.record.step import Exchange
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.collective import CollectiveWorkload
from twinlens.system.processors import usable_cores

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
        say(f"starting {asked.ranks} ranks{f' on {asked.on}' if asked.on else ''}")
        program = Program(on=asked.on, uses_gpu=bool(asked.on) and spec.device.kind != "cpu")
        threads = spec.executor.threads or max(1, usable_cores() // asked.ranks)
        self._ranks = Ranks(asked.ranks, threads, asked.patience_s, program)
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
