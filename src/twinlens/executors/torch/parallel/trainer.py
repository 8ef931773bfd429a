"""The trainer of parallel runs: it starts the ranks, asks them together, and makes one row of what they say."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.capabilities import Degrees
from twinlens.executors.protocol import Say
from twinlens.executors.torch.parallel.entry import NO_GPU_TO_BE_NEAR, degrees_of, microbatch_of
from twinlens.executors.torch.parallel.options import ParallelOptions
from twinlens.executors.torch.parallel.over_ranks import (
    against_one_process,
    communication,
    evaluation_over,
    exchange,
    exchanged,
    facts_over,
    mean_loss,
    memory_over,
    step_over,
)
from twinlens.executors.torch.parallel.program import Program
from twinlens.executors.torch.parallel.ranks import Ranks, on_processor, program_on, ranks_of, refuse_too_few_gpus
from twinlens.executors.torch.save_journal import Journal
from twinlens.record.codec import decode
from twinlens.record.executor.facts import Facts
from twinlens.record.sections import Checkpoints, Recovery
from twinlens.record.step import Marks
from twinlens.spec.protocol import Kill
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack that trains in several processes: its options, its refusals, and what each rank runs.

    `options_of` and `degrees_of` raise BadInput (TL202, TL207), `program_of` where it cannot run here.
    """

    options_of: Callable[[Mapping[str, Any]], Any]
    degrees_of: Callable[[RunSpec], Degrees]
    program_of: Callable[[RunSpec, Say], Program]


def _program_of(spec: RunSpec, say: Say) -> Program:
    asked = ParallelOptions.of(spec.executor.options)
    if asked.numa != "none" and on_processor(spec.device):
        raise BadInput(NO_GPU_TO_BE_NEAR, code="TL207")
    return replace(program_on(spec, asked.on), numa=asked.numa)


TORCH = Stack(ParallelOptions.of, degrees_of, _program_of)


class ParallelTrainer:
    """One process here, and the ranks below it: this one takes no part in training."""

    def __init__(self, stack: Stack = TORCH) -> None:
        self._stack = stack

    def open(self, spec: RunSpec, say: Say) -> Facts:
        assert isinstance(spec.workload, TrainingWorkload)
        stages = self._stack.degrees_of(spec).pipeline
        self._options, self._workload = self._stack.options_of(spec.executor.options), spec.workload
        self._rows = microbatch_of(spec, self._options) * self._options.data
        count = self._options.ranks
        program = self._stack.program_of(spec, say)
        if not program.on:
            refuse_too_few_gpus(spec.device, count)
        self._kill, self._saves = spec.protocol.kill, None
        if self._kill is not None:
            program = replace(program, restarts=self._kill.restarts)
        self._ranks = ranks_of(spec, self._options, program, say)
        told = self._ranks.ask({"order": "open", "spec": spec.to_dict()}, "opening", say)
        facts = facts_over([decode(Facts, each["facts"]) for each in told], self._options.split, stages)
        on_processor = told[0]["backend"] == "gloo"
        found = [
            against_one_process(told, spec.point.precision),
            exchange(told, on_processor),
            exchanged(told),
            communication(told, on_processor),
        ]
        self.examined_s: float | None = told[0].get("examined_s")
        self._saves = RunSaves(spec, self._ranks) if self._workload.checkpoint else None
        self._steps = self._looked_at = 0
        self._origin_ns: int | None = None
        return replace(facts, findings=(*facts.findings, *(each for each in found if each is not None)))

    def step(self) -> Marks:
        one_clock = self._ranks.share_a_clock
        if self._origin_ns is None and one_clock:
            self._origin_ns = time.monotonic_ns()
        target = self._workload.until
        if target and self._steps % target.every_steps == 0 and self._steps != self._looked_at:
            self._looked_at = self._steps
            told = self._ranks.ask({"order": "evaluate", "batches": target.batches}, "evaluating")
            rows = target.batches * self._rows
            return evaluation_over(
                told, self._origin_of(told), rows, rows * self._workload.seq_len, one_clock=one_clock
            )
        if self._saves is not None and self._kill is not None and self._steps + 1 == self._kill.at_step:
            row, self._steps = self._saves.lose_rank(self._kill, self._origin_of([]))
            self._kill = None
            return row
        self._steps += 1
        order = {"order": "step"} if self._saves is None else self._saves.order(self._steps)
        told = self._ranks.ask(order, f"taking step {self._steps}")
        batch = self._workload.global_batch
        origin_ns = self._origin_of(told)
        marks = step_over(told, origin_ns, batch, batch * self._workload.seq_len, one_clock=one_clock)
        return marks if self._saves is None else self._saves.took(self._steps, marks, told, origin_ns)

    def checkpoints(self) -> Checkpoints | None:
        """Saves so far, and the newest read back."""
        return None if self._saves is None else self._saves.checkpoints(self._steps)

    def _origin_of(self, told: list[Any]) -> int:
        """Time zero of the rows; of ranks that read another clock than this process, rank 0's first beginning."""
        if self._origin_ns is None:
            self._origin_ns = int(told[0]["begin_ns"])
        return self._origin_ns

    def device_memory(self) -> dict[str, int] | None:
        """The allocator's peaks over the rows, in bytes, of all GPUs and of the fullest; None on a processor."""
        return memory_over(self._ranks.ask({"order": "memory"}, "reading memory"))

    @property
    def first_pids(self) -> Sequence[int]:
        """The processes of this machine below which all others that do the work are."""
        return self._ranks.first_pids

    def close(self) -> None:
        if ranks := getattr(self, "_ranks", None):
            ranks.close()
        if saves := getattr(self, "_saves", None):
            saves.close()


# The run's part of saves: orders to the ranks, what they answered, and the kill of one with the recovery from it.


class RunSaves:
    """Saves of all ranks together."""

    def __init__(self, spec: RunSpec, ranks: Ranks) -> None:
        self._spec, self._ranks, self._journal = spec, ranks, Journal(spec)

    def order(self, step: int) -> dict[str, Any]:
        """The order to take step `step`, with the save that is due after it."""
        due = self._journal.order(step)
        if due is None:
            return {"order": "step"}
        return {"order": "step", "step": step, "save": str(due.folder), "drop": [str(each) for each in due.drop]}

    def took(self, step: int, marks: Marks, told: list[dict[str, Any]], origin_ns: int) -> Marks:
        """The row of a step with what its save blocked, from the first rank's begin to the last one's end."""
        self._journal.origin_ns = origin_ns
        saved = [rank["saved"] for rank in told if "saved" in rank]
        over = None
        if saved:
            begin_ns = min(each["begin_ns"] for each in saved)
            over = {"begin_ns": begin_ns, "blocked_ns": max(e["begin_ns"] + e["blocked_ns"] for e in saved) - begin_ns}
        row = self._journal.took(step, marks, over, any(rank["is_writing"] for rank in told))
        self._journal.note_durable(_durable([rank["durable_ns"] for rank in told]))
        return row

    def lose_rank(self, kill: Kill, origin_ns: int) -> tuple[Marks, int]:
        """Kill a rank while all take a step; the row of the recovery, and the step that the ranks are after then.

        Raises ExecutorFailed (TL307) where torchrun gives up.
        """
        self._journal.origin_ns = origin_ns
        killed_ns = self._ranks.kill(kill.rank, {"order": "step"})
        self._ranks.await_end()
        noticed_ns = time.monotonic_ns()
        found = self._journal.last_whole(before=kill.at_step)
        restarts = self._start_again(kill.restarts)
        restarted_ns = time.monotonic_ns()
        step, folder = found if found is not None else (0, None)
        self._ranks.ask({"order": "load", "folder": None if folder is None else str(folder)}, "reading a save")
        self._ranks.ask({"order": "go-on", "step": step}, "finding the place in the data")
        loaded_ns = time.monotonic_ns()
        recovery = Recovery(
            kill.rank,
            kill.at_step,
            step,
            restarts,
            killed_ns=killed_ns - origin_ns,
            noticed_ns=noticed_ns - origin_ns,
            restarted_ns=restarted_ns - origin_ns,
            loaded_ns=loaded_ns - origin_ns,
            resumed=self._journal.nothing_resumed(),
        )
        self._journal.note_recovery(recovery)
        return Marks(killed_ns - origin_ns, loaded_ns - origin_ns, 0, 0, kind="recover"), step

    def checkpoints(self, done: int) -> Checkpoints:
        """The record, once the newest save with a step after it was read back and a few steps were done again."""
        told = self._ranks.ask({"order": "settle"}, "waiting for saves")
        self._journal.note_durable(_durable(told))
        self._journal.note_size()

        def load(folder: Path) -> float:
            return float(max(self._ranks.ask({"order": "load", "folder": str(folder)}, "reading a save")))

        return self._journal.read_back(done, load, self._again)

    def close(self) -> None:
        """Remove all saves; the ranks are gone by then."""
        self._journal.close()

    def _start_again(self, most: int) -> int:
        """Wait until torchrun has all ranks up with their model built; the attempts that it took."""
        while True:
            attempt = self._ranks.rejoin()
            try:
                self._ranks.ask({"order": "open-again", "spec": self._spec.to_dict()}, "starting again")
            except ExecutorFailed:
                if attempt >= most:
                    raise
                self._ranks.await_end()
            else:
                return attempt

    def _again(self, step: int, count: int) -> list[float | None]:
        self._ranks.ask({"order": "go-on", "step": step}, "finding the place in the data")
        told = [self._ranks.ask({"order": "step"}, "taking a step again") for _ in range(count)]
        return [mean_loss(each) for each in told]


def _durable(told: list[dict[Any, int]]) -> dict[int, int]:
    """Of each step, when the last rank's part was on storage. Keys came through JSON."""
    steps = set.intersection(*({int(step) for step in each} for each in told))
    by_rank = [{int(step): at_ns for step, at_ns in each.items()} for each in told]
    return {step: max(each[step] for each in by_rank) for step in steps}
