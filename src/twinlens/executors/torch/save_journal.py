"""The journal of a run's saves: which step is followed by one, where it lies, what it took, and losses to compare."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from twinlens.record.sections import Checkpoints, Recovery, Restore, Resumed, Save
from twinlens.record.step import Marks
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.system.page_cache import drop_pages, files_below, size_below

TOLERANCE = {"fp32": 1e-4, "tf32": 2e-3, "bf16": 5e-3}
"""The largest relative difference of a loss that is taken twice: sums in another order differ by far less."""
COMPARED_STEPS = 3
"""Steps that are done again from a save when the rows are taken."""
_WHOLE = ".metadata"  # torch writes it last


@dataclass(frozen=True, slots=True)
class SaveOrder:
    """Where the next save goes, and which older ones go first."""

    step: int
    folder: Path
    drop: tuple[Path, ...]


class Journal:
    """Times are taken on the monotonic clock and kept on that of the rows, which begins at `origin_ns`."""

    def __init__(self, spec: RunSpec) -> None:
        assert isinstance(spec.workload, TrainingWorkload)
        assert spec.workload.checkpoint is not None
        asked = spec.workload.checkpoint
        self._every, self.mode = asked.every_steps, asked.mode
        parent = Path(asked.folder).expanduser() if asked.folder else None
        self._folder = Path(tempfile.mkdtemp(prefix="twinlens-saves-", dir=parent))
        self._record = Checkpoints(asked.mode, asked.every_steps, filesystem_of(self._folder), free_bytes(self._folder))
        self._tolerance = TOLERANCE.get(spec.point.precision, TOLERANCE["bf16"])
        self._losses: dict[int, float | None] = {}
        self._again: dict[int, float | None] = {}
        self._saves: dict[int, Save] = {}
        self.origin_ns = 0

    def order(self, step: int) -> SaveOrder | None:
        """The save that is due after optimizer step `step`, from 1; None where none is."""
        if step % self._every:
            return None
        whole = self._whole()
        return SaveOrder(step, self._place(step), tuple(self._place(each) for each in whole[:-1]))

    def took(self, step: int, marks: Marks, saved: Mapping[str, int] | None, is_writing: bool) -> Marks:
        """The row of a step with what its save blocked; `is_writing`: whether an earlier save was still being written.

        A step that was lost and is done again is marked as a repeat, and its loss held against the first time.
        """
        (self._again if step in self._losses else self._losses)[step] = marks.loss
        if step in self._again:
            marks = replace(marks, tag="repeat")
        elif is_writing and marks.tag is None:
            marks = replace(marks, tag="saving")
        if saved is None:
            return marks
        begin_ns = saved["begin_ns"] - self.origin_ns
        self._saves[step] = Save(step, begin_ns, saved["blocked_ns"])
        return replace(
            marks, end_ns=max(marks.end_ns, begin_ns + saved["blocked_ns"]), checkpoint_ns=saved["blocked_ns"]
        )

    def note_durable(self, durable_ns: Mapping[int, int]) -> None:
        """When saves were on storage, by step, on the monotonic clock."""
        for step, at_ns in durable_ns.items():
            if step in self._saves and self._saves[step].durable_ns is None:
                self._saves[step] = replace(self._saves[step], durable_ns=at_ns - self.origin_ns)

    def last_whole(self, before: int) -> tuple[int, Path] | None:
        """The newest whole save of a step below `before`, else the newest; None where there is none."""
        whole = self._whole()
        step = next((each for each in reversed(whole) if each < before), whole[-1] if whole else None)
        return None if step is None else (step, self._place(step))

    def note_size(self) -> None:
        """Keep the bytes of the newest whole save."""
        if found := self._whole():
            self._record = replace(self._record, size_bytes=size_below(self._place(found[-1])))

    def note_recovery(self, recovery: Recovery) -> None:
        """Of a lost rank, before its steps are repeated; saves that came after are forgotten."""
        self._record = replace(self._record, recovery=recovery)

    def read_back(
        self, done: int, load: Callable[[Path], float], again: Callable[[int, int], Sequence[float | None]]
    ) -> Checkpoints:
        """All of it, once the newest save with a step after it was read back, from storage and from memory, and a few
        steps were done `again` (from a step, so many; their losses)."""
        if found := self.last_whole(before=done):
            step, folder = found
            storage_s = load(folder) if drop_pages(files_below(folder)) else None
            cache_s = load(folder)
            self.note_restore(step, storage_s, cache_s, again(step, min(COMPARED_STEPS, done - step)))
        return self.record()

    def note_restore(self, step: int, storage_s: float | None, cache_s: float, losses: Sequence[float | None]) -> None:
        """State that was read back from the save of `step`, and the losses of the steps after it, done again."""
        again = {step + 1 + place: loss for place, loss in enumerate(losses)}
        self._record = replace(self._record, restore=Restore(step, storage_s, cache_s, self._resumed(again)))

    def record(self) -> Checkpoints:
        """All of it."""
        known = replace(self._record, saves=tuple(self._saves[step] for step in sorted(self._saves)))
        if known.recovery is not None:
            known = replace(known, recovery=replace(known.recovery, resumed=self._resumed(self._again)))
        return known

    def nothing_resumed(self) -> Resumed:
        """Before any step is done again."""
        return self._resumed({})

    def close(self) -> None:
        """Remove all saves."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _resumed(self, again: Mapping[int, float | None]) -> Resumed:
        found = losses_compared((self._losses[step], loss) for step, loss in again.items() if step in self._losses)
        return Resumed(found.steps, found.worst, self._tolerance, found.unknown)

    def _whole(self) -> list[int]:
        return sorted(int(path.parent.name) for path in self._folder.glob(f"*/{_WHOLE}"))

    def _place(self, step: int) -> Path:
        return self._folder / str(step)


@dataclass(frozen=True, slots=True)
class LossesCompared:
    """`steps`: those of either pass. `worst`: the largest relative difference, over steps of which both losses are
    finite; None where there is none. `unknown`: steps of which a loss is absent or not finite in either pass."""

    steps: int
    worst: float | None
    unknown: int

    def are_within(self, tolerance: float) -> bool:
        """False where a step is unknown, and where nothing was compared."""
        return not self.unknown and self.worst is not None and self.worst <= tolerance


def losses_compared(pairs: Iterable[tuple[float | None, float | None]]) -> LossesCompared:
    """The losses of each step, first and second pass."""
    each = [apart(first, second) for first, second in pairs]
    known = [value for value in each if value is not None]
    return LossesCompared(len(each), max(known, default=None), len(each) - len(known))


def apart(first: float | None, second: float | None) -> float | None:
    """The relative difference of two numbers, by the larger of them: 0 of two zeros, so nothing is divided by zero.

    None where either is absent or not finite.
    """
    if first is None or second is None or not (math.isfinite(first) and math.isfinite(second)):
        return None
    larger = max(abs(first), abs(second))
    return abs(first / larger - second / larger) if larger else 0.0


def free_bytes(folder: Path) -> int:
    """What the file system of a folder has left for us."""
    return shutil.disk_usage(folder).free


def filesystem_of(folder: Path) -> str:
    """The type of the file system that a folder is on, such as "ext4"; "unknown" where the system does not say."""
    path = folder.resolve()
    mounts = {Path(each.mountpoint): each.fstype for each in psutil.disk_partitions(all=True)}
    return next((mounts[each] for each in (path, *path.parents) if each in mounts), "unknown") or "unknown"
