"""The trainer of parallel runs: it starts the ranks, asks them together, and makes one row of what they say."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from twinlens.executors.protocol import Say
from twinlens.executors.torch.parallel.findings import against_one_process, exchange
from twinlens.executors.torch.parallel.gpus import refuse_too_few_gpus
from twinlens.executors.torch.parallel.options import ParallelOptions, degrees_of, microbatch_of
from twinlens.executors.torch.parallel.over_ranks import evaluation_over, facts_over, step_over
from twinlens.executors.torch.parallel.ranks import Ranks
from twinlens.record.executor.facts import Facts
from twinlens.record.step import Marks
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.system.processors import usable_cores


class ParallelTrainer:
    """One process here, and the ranks below it: this one takes no part in training."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        assert isinstance(spec.workload, TrainingWorkload)
        degrees_of(spec)
        self._options, self._workload = ParallelOptions.of(spec.executor.options), spec.workload
        self._rows = microbatch_of(spec, self._options) * self._options.data
        count = self._options.ranks
        refuse_too_few_gpus(spec.device, count)
        say(f"starting {count} ranks")
        threads = spec.executor.threads or max(1, usable_cores() // count)
        self._ranks = Ranks(count, threads, self._options.patience_s)
        told = self._ranks.ask({"order": "open", "spec": spec.to_dict()}, "opening", say)
        facts = facts_over([Facts.from_json(each["facts"]) for each in told], self._options.data)
        found = [against_one_process(told, spec.point.precision), exchange(told, told[0]["backend"] == "gloo")]
        self._steps = self._looked_at = 0
        self._origin_ns: int | None = None
        return replace(facts, findings=(*facts.findings, *(each for each in found if each is not None)))

    def step(self) -> Marks:
        if self._origin_ns is None:
            self._origin_ns = time.monotonic_ns()
        target = self._workload.until
        if target and self._steps % target.every_steps == 0 and self._steps != self._looked_at:
            self._looked_at = self._steps
            told = self._ranks.ask({"order": "evaluate", "batches": target.batches}, "evaluating")
            rows = target.batches * self._rows
            return evaluation_over(told, self._origin_ns, rows, rows * self._workload.seq_len)
        self._steps += 1
        told = self._ranks.ask({"order": "step"}, f"taking step {self._steps}")
        batch = self._workload.global_batch
        return step_over(told, self._origin_ns, batch, batch * self._workload.seq_len)

    def device_memory(self) -> dict[str, int] | None:
        """The allocator's peak over the rows, in bytes, of the fullest GPU; None on a processor."""
        told: list[Any] = self._ranks.ask({"order": "memory"}, "reading memory")
        return None if told[0] is None else {name: max(each[name] for each in told) for name in told[0]}

    @property
    def pid(self) -> int:
        """The first of the processes that do the work."""
        return self._ranks.pid

    def close(self) -> None:
        if ranks := getattr(self, "_ranks", None):
            ranks.close()
