"""The demo: bundled studies of both lenses, measured here, and a report of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from twinlens.api.measuring.progress import Progress
from twinlens.api.measuring.studies import measure
from twinlens.api.question import asks
from twinlens.api.questions import DEMO
from twinlens.api.questions import Demo as Asked
from twinlens.api.report import report
from twinlens.measurement.event import Watch
from twinlens.measurement.study import Outcome
from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Runs
from twinlens.record.store import end_study
from twinlens.reporting.comparing.paired import paired_of
from twinlens.reporting.text.sentence import both_counts, sentences
from twinlens.spec.load import load_example
from twinlens.spec.study import Study
from twinlens.stats.summary.group import group
from twinlens.system.processes import usable_cores

if TYPE_CHECKING:
    from twinlens.api.words import DemoWords

_STUDIES = ("training", "inference", "quality", "serving")


@dataclass(frozen=True, slots=True)
class Demo:
    """The result of the demo: its outcomes in measuring order, their runs, the report's path, and what it says in
    words: one sentence for each lens, one that they are two, and both ways of counting where a server was paused."""

    outcomes: tuple[Outcome, ...]
    runs: Runs
    report: Path
    sentences: tuple[str, ...]


@asks(DEMO)
def demo(
    out: str | Path = "runs",
    *,
    watch: Watch | Progress | None = Progress(),
    keep_open: bool = False,
    first: Callable[[Outcome, int], None] | None = None,
    **words: Unpack[DemoWords],
) -> Demo:
    """The bundled studies, both lenses, and a report of them in `out`. Parameters are those of `measure`.

    `first` is told of the outcome of the first study as soon as it is there, and how many follow.
    """
    fresh = Asked.read(DEMO.name, words).fresh
    begun, *others = demo_studies()
    outcomes: tuple[Outcome, ...] = (measure(begun, out, watch=watch, fresh=fresh, keep_open=True),)
    if first is not None:
        first(outcomes[0], len(others))
    outcomes += tuple(measure(study, out, watch=watch, fresh=fresh, keep_open=True) for study in others)
    runs = Runs.of(run for outcome in outcomes for run in outcome.runs)
    path = report(runs, Path(out) / f"{outcomes[0].folder.name}.html", "Twinlens demo")
    for outcome in () if keep_open else outcomes:
        end_study(outcome.folder)
    return Demo(outcomes, runs, path, _sentences(runs, outcomes[-1]))


def demo_studies() -> tuple[Study, ...]:
    """The bundled studies, in the order they are measured."""
    return tuple(_leaving_a_core(load_example(f"demo-{name}")) for name in _STUDIES)


def _leaving_a_core(study: Study) -> Study:
    """The same, with one core left to whatever else runs here: with all of them each neighbour stops every step."""
    if study.executor.threads:
        return study
    cores = max(1, usable_cores() - 1)
    return study.model_copy(update={"executor": study.executor.model_copy(update={"threads": cores})})


def _sentences(runs: Runs, served: Outcome) -> tuple[str, ...]:
    """About the one model that both lenses saw, the first run's: of engine-level runs, then of the served ones."""
    groups = [member for member in group(map(summary_of, runs)) if member.model == runs[0].spec.workload.model]
    ids = {run.id for run in served.runs}
    engine, under_load = (
        [member for member in groups if (member.runs[0].run in ids) is wanted] for wanted in (False, True)
    )
    lenses = ([member for member in engine if member.lens == lens] for lens in ("training", "inference"))
    lines = sentences(*lenses, paired=paired_of(groups, runs))
    stall = served.runs[0].spec.protocol.stall
    counts = [both_counts(member, stall.for_s) for member in under_load] if stall is not None else []
    return (*lines, *filter(None, counts))
