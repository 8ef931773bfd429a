"""The verb that says how often to save: from a measured run, or from words, and the time between failures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.compare import sides
from twinlens.api.plan.amount import seconds_of
from twinlens.api.plan.as_json import as_json
from twinlens.api.plan.number import UNREADABLE, count_of
from twinlens.comparison.side import Side
from twinlens.errors import BadInput
from twinlens.planning.checkpoint import SavePlan, Span, save_plan
from twinlens.planning.figure import assumed
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.spec.workload.workload import TrainingWorkload

_METRICS = {"save": "save_cost_s", "restart": "recovery_s"}


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """How often to save. `notes`: what was taken for granted."""

    answer: SavePlan
    notes: tuple[Finding, ...] = ()

    def why(self) -> dict[str, Any]:
        return self.answer.why()

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why(), (*self.notes, *self.answer.notes()))


def checkpoint(
    run: str | Path | None = None,
    *,
    mtbf: object = None,
    device_mtbf: object = None,
    devices: object = None,
    save: object = None,
    restart: object = None,
) -> CheckpointResult:
    """How often to save: `checkpoint("runs/…", mtbf="8h")`, or `checkpoint(save="40s", restart="5min", mtbf="3h")`.

    `mtbf`: mean time between failures of the whole job, or of one device (`device_mtbf`), divided by `devices`. Each
    time may be a span: "6h..10h". What is said goes before what the run measured. Raises BadInput (TL231).
    """
    many = None if devices is None else count_of("devices", devices)
    side = None if run is None else _training(run)
    failure = _failure(mtbf, device_mtbf, many)
    saved = _span("save", save) if save is not None else _measured(side, "save")
    notes: tuple[Finding, ...] = ()
    if restart is not None:
        again = _span("restart", restart)
    elif side is not None and "recovery_s" in side.group.metrics:
        again = _measured(side, "restart")
    else:
        again, notes = Span(0.0, 0.0, 0.0, "assumed"), (assumed("restart-free", "nothing"),)
    notes += () if side is None or side.group.ranked else (assumed("like-not-ranked", side.name),)
    step = side.group.metrics.get("step_s_p50") if side is not None else None
    step_s = step.value if step is not None else None
    return CheckpointResult(save_plan(saved, again, failure, step_s, _now(side, step_s), many), notes)


def _training(run: str | Path) -> Side:
    found = [side for side in sides(run, False) if side.lens == "training"]
    best = next((side for side in found if _known(side, "save_cost_s") is not None), None)
    if best is None:
        raise BadInput(
            f"{str(run)[:60]!r} has no training that saved; measure one with workload.checkpoint, or give --save 40s",
            code=UNREADABLE,
        )
    return best


def _failure(mtbf: object, device_mtbf: object, devices: int | None) -> Span:
    if (mtbf is None) == (device_mtbf is None):
        raise BadInput(
            "give one time between failures: --mtbf 8h of the whole job, or --device-mtbf '50000 h' and --devices 1024",
            code=UNREADABLE,
        )
    if mtbf is not None:
        return _span("mtbf", mtbf)
    if devices is None:
        raise BadInput("--device-mtbf is of one device; say how many there are: --devices 1024", code=UNREADABLE)
    each = _span("device-mtbf", device_mtbf)
    return Span(each.low / devices, each.value / devices, each.high / devices, f"of one device / {devices:,}")


def _span(name: str, word: object) -> Span:
    low, dots, high = str(word).partition("..")
    ends = seconds_of(name, low), seconds_of(name, high if dots else low)
    if ends[0] > ends[1]:
        raise BadInput(f"--{name} {str(word)[:40]!r} ends below its start; write --{name} 6h..10h", code=UNREADABLE)
    return Span(ends[0], sum(ends) / 2, ends[1], "asked")


def _measured(side: Side | None, name: str) -> Span:
    estimate = _known(side, _METRICS[name]) if side is not None else None
    if side is None or estimate is None or not estimate.value:
        raise BadInput(
            f"the cost of a {name} is not known: give a RUN that measured it, or --{name} 40s", code=UNREADABLE
        )
    low = estimate.value if estimate.low is None else max(estimate.low, estimate.value / 100)
    high = estimate.value if estimate.high is None else estimate.high
    return Span(low, estimate.value, high, f"{side.name}, {estimate.method}", "measured")


def _known(side: Side, metric: str) -> Estimate | None:
    estimate = side.group.metrics.get(metric)
    return estimate if estimate is not None and estimate.value is not None else None


def _now(side: Side | None, step_s: float | None) -> float | None:
    """Seconds between two saves of the run."""
    if side is None or step_s is None:
        return None
    workload = side.runs[0].spec.workload
    asked = workload.checkpoint if isinstance(workload, TrainingWorkload) else None
    return None if asked is None else asked.every_steps * step_s
