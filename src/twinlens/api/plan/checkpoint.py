"""The verb that says how often to save: from a measured run, or from words, and the time between failures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from twinlens.api.compare import sides
from twinlens.api.documented import Answered, as_json
from twinlens.api.plan.reading.amount import UNREADABLE, seconds_of
from twinlens.api.plan.reading.options import Devices
from twinlens.api.question import Kind, Question, Verb, argument, asks, option
from twinlens.comparison.side import Side
from twinlens.errors import BadInput
from twinlens.planning.checkpoint import SavePlan, Span, save_plan
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.theory.figure import assumed

if TYPE_CHECKING:
    from twinlens.api.words import PlanCheckpointWords
    from twinlens.reporting.document.block import Document

_METRICS = {"save": "save_cost_s", "restart": "recovery_s"}


@dataclass(frozen=True, slots=True, repr=False)
class CheckpointResult(Answered):
    """How often to save. `notes`: what was taken for granted."""

    answer: SavePlan
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.checkpoint import checkpoint_document

        return checkpoint_document(self.answer, self.notes)

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why(), (*self.notes, *self.answer.notes()))


def _span(name: str, word: object) -> Span:
    low, dots, high = str(word).partition("..")
    ends = seconds_of(name, low), seconds_of(name, high if dots else low)
    if ends[0] > ends[1]:
        raise BadInput(f"--{name} {str(word)[:40]!r} ends below its start; write --{name} 6h..10h", code=UNREADABLE)
    return Span(ends[0], sum(ends) / 2, ends[1], "asked")


SPAN = Kind("TIME", _span)


class CheckpointAsked(Question):
    """What failures and saves cost."""

    run: Annotated[Path, argument("A run that saved (workload.checkpoint).", "RUN")] | None = None
    mtbf: Annotated[Span, option("Mean time between failures of the job: 8h, 6h..10h.", SPAN)] | None = None
    device_mtbf: Annotated[Span, option("The same of one device: '50000 h'.", SPAN)] | None = None
    devices: Devices | None = None
    save: Annotated[Span, option("What a save costs: 40s.", SPAN)] | None = None
    restart: Annotated[Span, option("From a failure until training goes on: 5min.", SPAN)] | None = None


VERB = Verb(
    "plan checkpoint", (CheckpointAsked,), "--mtbf 8h --save 40s --restart 5min", "Every figure with its formula."
)


@asks(VERB)
def checkpoint(run: str | Path | None = None, **words: Unpack[PlanCheckpointWords]) -> CheckpointResult:
    """How often to save training: the best interval by Daly, with its band, and the goodput it keeps.

    `checkpoint("runs/…", mtbf="8h")`, or `checkpoint(save="40s", restart="5min", mtbf="3h")`. `mtbf` is of the whole
    job, `device_mtbf` of one of `devices`. Each time may be a span: "6h..10h". What is said goes before what the run
    measured. Raises BadInput (TL231).
    """
    asked = CheckpointAsked.read(VERB.name, {"run": run, **words})
    side, failure = None if asked.run is None else _training(asked.run), _failure(asked)
    saved = asked.save or _measured(side, "save")
    notes: tuple[Finding, ...] = ()
    if asked.restart is not None:
        again = asked.restart
    elif side is not None and "recovery_s" in side.group.metrics:
        again = _measured(side, "restart")
    else:
        again, notes = Span(0.0, 0.0, 0.0, "assumed"), (assumed("restart-free", "nothing"),)
    notes += () if side is None or side.group.ranked else (assumed("like-not-ranked", side.name),)
    step = side.group.metrics.get("step_s_p50") if side is not None else None
    step_s = step.value if step is not None else None
    return CheckpointResult(save_plan(saved, again, failure, step_s, _now(side, step_s), asked.devices), notes)


def _training(run: Path) -> Side:
    found = [side for side in sides(run, False) if side.lens == "training"]
    best = next((side for side in found if _known(side, "save_cost_s") is not None), None)
    if best is None:
        raise BadInput(
            f"{str(run)[:60]!r} has no training that saved; measure one with workload.checkpoint, or give --save 40s",
            code=UNREADABLE,
        )
    return best


def _failure(asked: CheckpointAsked) -> Span:
    if (asked.mtbf is None) == (asked.device_mtbf is None):
        raise BadInput(
            "give one time between failures: --mtbf 8h of the whole job, or --device-mtbf '50000 h' and --devices 1024",
            code=UNREADABLE,
        )
    if asked.mtbf is not None:
        return asked.mtbf
    each, devices = asked.device_mtbf, asked.devices
    if each is None or devices is None:
        raise BadInput("--device-mtbf is of one device; say how many there are: --devices 1024", code=UNREADABLE)
    return Span(each.low / devices, each.value / devices, each.high / devices, f"of one device / {devices:,}")


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
