"""Saves of a training run, the state read back from them, and the recovery from a lost rank: times and counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Save:
    """One save, after optimizer step `step` (from 1); times in ns on the clock of the rows.

    `durable_ns`: when all of it was on storage; None where that was not seen.
    """

    step: int
    begin_ns: int
    blocked_ns: int
    durable_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """Steps done again from a save: how many were done before, and the worst relative difference of their losses.

    `worst`: None where no step has a finite loss both times. `unknown`: steps of which a loss is absent or not finite
    either time, which are not equal.
    """

    steps: int
    worst: float | None
    tolerance: float
    unknown: int = 0

    @property
    def is_equal(self) -> bool | None:
        """None where nothing was compared."""
        if self.unknown:
            return False
        return None if self.worst is None else self.worst <= self.tolerance


@dataclass(frozen=True, slots=True)
class Restore:
    """State read back when the rows were taken. `storage_s`: with the page cache told to drop the files before, None
    where the system takes no such advice; `cache_s`: a second time, from the page cache."""

    step: int
    storage_s: float | None
    cache_s: float
    resumed: Resumed


@dataclass(frozen=True, slots=True)
class Recovery:
    """From the kill of a rank to training that goes on, in ns on the clock of the rows.

    `killed_ns` ≤ `noticed_ns` ≤ `restarted_ns` (all ranks built their model again) ≤ `loaded_ns`. `restarts`: attempts
    of torchrun; `from_step`: the last step that the save held; `resumed`: the steps repeated.
    """

    rank: int
    at_step: int
    from_step: int
    restarts: int
    killed_ns: int
    noticed_ns: int
    restarted_ns: int
    loaded_ns: int
    resumed: Resumed


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """All of a run. `size_bytes`: of one save, in its files; `filesystem`: the type of that of the folder;
    `free_bytes`: before the first save."""

    mode: str
    every_steps: int
    filesystem: str
    free_bytes: int
    size_bytes: int | None = None
    saves: tuple[Save, ...] = ()
    restore: Restore | None = None
    recovery: Recovery | None = None
