"""The run's part of saves: orders to the ranks, what they answered, and the kill of one with the recovery from it."""

from __future__ import annotations

import time
from typing import Any

from twinlens.errors import ExecutorFailed
from twinlens.executors.torch.parallel.over_ranks import mean_loss
from twinlens.executors.torch.parallel.ranks import Ranks
from twinlens.executors.torch.saves.journal import COMPARED_STEPS, Journal
from twinlens.executors.torch.saves.storage import drop_from_cache
from twinlens.record.sections import Checkpoints, Recovery
from twinlens.record.step import Marks
from twinlens.spec.protocol import Kill
from twinlens.spec.study import RunSpec


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
        if found := self._journal.last_whole(before=done):
            step, folder = found
            order = {"order": "load", "folder": str(folder)}
            storage_s = max(self._ranks.ask(order, "reading a save")) if drop_from_cache(folder) else None
            cache_s = max(self._ranks.ask(order, "reading a save"))
            self._journal.note_restore(step, storage_s, cache_s, self._again(step, min(COMPARED_STEPS, done - step)))
        return self._journal.record()

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
