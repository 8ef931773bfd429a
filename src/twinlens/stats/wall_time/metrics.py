"""Goodput of a training run and its losses, as shares of its wall time."""

from __future__ import annotations

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.spec.workload.workload import Own, TrainingWorkload
from twinlens.stats.wall_time.account import PARTS, wall_time
from twinlens.units import RATIO, STEPS_PER_S


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
