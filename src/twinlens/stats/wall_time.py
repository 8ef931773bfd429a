"""Wall time of a training run: useful steps, each loss by its name, saves, and the recovery from a lost rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.record.sections import Checkpoints, Recovery, Restore
from twinlens.record.step import Steps
from twinlens.spec.workload.workload import Own, TrainingWorkload
from twinlens.stats.estimator.interval import mean_of_independent
from twinlens.units import BYTES, BYTES_PER_S, COUNT, RATIO, SECONDS, STEPS_PER_S


def in_save(steps: Steps) -> np.ndarray:
    """The rows that paid for a save or had one written beside them, as a mask [n]."""
    return np.asarray((np.nan_to_num(steps.phases_ns["checkpoint"]) > 0) | (steps.tag == "saving"), dtype=bool)


def save_metrics(known: Checkpoints, steps: Steps) -> dict[str, Estimate]:
    """Of all saves of a run. `steps`: its useful steps, in order."""
    blocked_s = np.array([save.blocked_ns for save in known.saves]) / 1e9
    durable_s = np.array([(s.durable_ns - s.begin_ns) / 1e9 for s in known.saves if s.durable_ns is not None])
    if not blocked_s.size:
        why = f"no step came to a save: one is due every {known.every_steps} steps"
        return {"save_blocked_s": Estimate.absent(SECONDS, why)}
    slower = _slowdown(known, steps)
    metrics = {
        "save_blocked_s": mean_of_independent(blocked_s, unit=SECONDS, method_suffix=" of saves"),
        "save_durable_s": mean_of_independent(durable_s, unit=SECONDS, method_suffix=" of saves, to the last fsync")
        if durable_s.size
        else Estimate.absent(SECONDS, "no save was seen to end"),
        "save_slowdown_s": slower,
    }
    metrics["save_cost_s"] = _cost(blocked_s, slower)
    if known.size_bytes:
        metrics["save_bytes"] = Estimate(float(known.size_bytes), BYTES, "files of one save", "measured", n=1)
        if durable_s.size:
            rates = mean_of_independent(known.size_bytes / durable_s, unit=BYTES_PER_S, method_suffix=" of saves")
            metrics["save_bytes_per_s"] = rates
    if known.restore is not None:
        metrics |= _restored(known.restore)
    if known.recovery is not None:
        metrics |= _recovered(known.recovery, steps)
    return metrics


def _slowdown(known: Checkpoints, steps: Steps) -> Estimate:
    """How much longer the steps took beside which saves were written, for each save."""
    if known.mode == "sync":
        return Estimate(0.0, SECONDS, "nothing is written beside steps", "derived", n=len(known.saves))
    took_s = (steps.end_ns - steps.begin_ns - np.nan_to_num(steps.phases_ns["checkpoint"])) / 1e9
    beside, calm = steps.tag == "saving", ~in_save(steps)
    if not calm.any():
        return Estimate.absent(SECONDS, "no step was without a save being written beside it")
    if not beside.any():
        return Estimate.absent(SECONDS, "no step was seen with a save being written beside it")
    extra_s = float((took_s[beside] - np.median(took_s[calm])).sum()) / len(known.saves)
    method = f"{int(beside.sum())} steps beside saves − the median of {int(calm.sum())} others, per save"
    return Estimate(extra_s, SECONDS, method, "measured", n=len(known.saves))


def _cost(blocked_s: np.ndarray, slower: Estimate) -> Estimate:
    """What one save costs training: blocked time and slow-down, with the interval of the first."""
    if slower.value is None:
        return Estimate.absent(SECONDS, slower.reason or "the slow-down is not known")
    whole = blocked_s + max(0.0, slower.value)
    return mean_of_independent(whole, unit=SECONDS, method_suffix=" of blocked time + slow-down of later steps")


def _restored(restore: Restore) -> dict[str, Estimate]:
    cold = (
        Estimate.absent(SECONDS, "this system takes no advice to forget pages of files")
        if restore.storage_s is None
        else Estimate(restore.storage_s, SECONDS, "read after posix_fadvise(DONTNEED)", "measured", n=1)
    )
    return {
        "restore_storage_s": cold,
        "restore_cache_s": Estimate(restore.cache_s, SECONDS, "read from the page cache", "measured", n=1),
    }


def _recovered(recovery: Recovery, steps: Steps) -> dict[str, Estimate]:
    """Phases of the recovery, and the steps that had to be done again."""

    def lasted(begin_ns: int, end_ns: int, method: str) -> Estimate:
        return Estimate((end_ns - begin_ns) / 1e9, SECONDS, method, "measured", n=1)

    killed, noticed = recovery.killed_ns, recovery.noticed_ns
    again = steps.tag == "repeat"
    repeated_s = float((steps.end_ns - steps.begin_ns)[again].sum()) / 1e9
    down_s = (recovery.loaded_ns - killed) / 1e9
    return {
        "recovery_notice_s": lasted(killed, noticed, "kill to the end of the last rank"),
        "recovery_restart_s": lasted(noticed, recovery.restarted_ns, "to all ranks with their model built"),
        "recovery_load_s": lasted(recovery.restarted_ns, recovery.loaded_ns, "state and place in the data"),
        "recovery_s": Estimate(down_s, SECONDS, "kill to training that goes on", "measured", n=1),
        "recovery_lost_s": Estimate(down_s + repeated_s, SECONDS, "recovery + steps repeated", "measured", n=1),
        "repeated_steps": Estimate(float(again.sum()), COUNT, "steps done again", "measured", n=1),
        "restarts_used": Estimate(float(recovery.restarts), COUNT, "attempts of torchrun", "measured", n=1),
    }


# The account of a training run's wall time: every nanosecond in one part, and the parts add up to the whole.

PARTS = ("useful", "startup", "data", "checkpoint", "restart", "repeat", "evaluation", "other")
"""In the order in which they are told. `useful`: steps that were kept, without data and saves in them."""
STARTING = ("compile", "examined", "starting")
"""Tags of steps that belong to the start, however the others are."""


@dataclass(frozen=True, slots=True)
class WallTime:
    """Nanoseconds by part, from the start to the end of the last row. `steps`: useful ones, each counted once."""

    parts_ns: dict[str, int]
    steps: int

    @property
    def wall_ns(self) -> int:
        return sum(self.parts_ns.values())


def wall_time(steps: Steps, startup_ns: int) -> WallTime:
    """The account of a run: `startup_ns` before the zero of its rows, then every row and every gap between rows.

    A step that compiles is part of the start-up; one that is done again, or whose update was skipped, is no useful one.
    What a row shares with the row before it counts once.
    """
    parts = dict.fromkeys(PARTS, 0) | {"startup": max(0, startup_ns)}
    useful, at_ns = 0, 0
    rows = zip(steps.kind, steps.tag, steps.begin_ns.tolist(), steps.end_ns.tolist(), strict=True)
    for place, (kind, tag, begin_ns, end_ns) in enumerate(rows):
        parts["other"] += max(0, begin_ns - at_ns)
        left_ns = max(0, end_ns - max(begin_ns, at_ns))
        at_ns = max(at_ns, end_ns)
        whole = _whole_row(kind, tag)
        useful += kind == "step" and tag not in ("repeat", "skipped")
        for phase in ("checkpoint", "data") if whole in ("useful", "repeat") else ():
            if whole == "repeat" and phase == "data":
                continue
            known = steps.phases_ns[phase][place]
            taken = min(left_ns, int(known)) if known == known else 0  # NaN: there is none
            parts[phase] += taken
            left_ns -= taken
        parts[whole] += left_ns
    return WallTime(parts, useful)


def _whole_row(kind: str, tag: str | None) -> str:
    """The part that a row belongs to, but for its data and its save."""
    if kind == "recover":
        return "restart"
    if kind == "evaluate":
        return "evaluation"
    if kind == "between":
        return "other"
    if tag in STARTING:
        return "startup"
    return {"repeat": "repeat", "skipped": "other"}.get(tag or "", "useful")


# Goodput of a training run and its losses, as shares of its wall time.


def goodput(run: Run) -> dict[str, Estimate]:
    """Empty where nobody told the start-up from the examining before the rows, and where points took turns.

    A loop of somebody's own has it where it names its saves (`run.save`).
    """
    startup_s, told = run.sections.startup_s, "without what Twinlens examined before the rows"
    if startup_s is None and _has_own_saves(run):
        startup_s, told = 0.0, "from entering the watched block"
    if startup_s is None or run.sections.pairing is not None or not len(run.steps):
        return {}
    account = wall_time(run.steps, round(startup_s * 1e9))
    if not account.wall_ns:
        return {}
    wall = f"wall time, {account.wall_ns / 1e9:.4g} s, {told}"
    shares = {
        f"lost_{part}_share": Estimate(spent / account.wall_ns, RATIO, f"{part} / {wall}", "measured", n=1)
        for part, spent in account.parts_ns.items()
        if part != "useful"
    }
    useful = account.parts_ns["useful"] / account.wall_ns
    rate = account.steps / (account.wall_ns / 1e9)
    return {
        "training_goodput": Estimate(useful, RATIO, f"useful steps' time / {wall}", "measured", n=1),
        "useful_steps_per_s": Estimate(rate, STEPS_PER_S, f"{account.steps} useful steps / {wall}", "measured", n=1),
    } | shares


def _has_own_saves(run: Run) -> bool:
    workload = run.spec.workload
    is_own = isinstance(workload, TrainingWorkload) and isinstance(workload.data, Own)
    return is_own and bool((run.steps.phases_ns["checkpoint"] > 0).any())


LOSSES = tuple(f"lost_{part}_share" for part in PARTS if part != "useful")
"""Metrics that add up to 1 with `training_goodput`."""
