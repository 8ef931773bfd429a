"""`twinlens check`: the spec resolved, what it stands for, and what theory says of it; nothing is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from twinlens.cli.screen import err, out, planned_s, print_json, sentences
from twinlens.cli.settings import as_settings
from twinlens.executors.registry import refuse_unknown_executor
from twinlens.measurement.facts.predicted_work import theory_of
from twinlens.measurement.preflight.memory import needed
from twinlens.measurement.preflight.refuse import preflight
from twinlens.reporting.load_kind import policy_of
from twinlens.spec.load import dump, load
from twinlens.spec.study import RunSpec, Study
from twinlens.units import show


def run(path: Path, settings: list[str], at: list[str], json: bool) -> None:
    with sentences():
        study = load(path, [*as_settings(at), *settings])
        refuse_unknown_executor(study.executor.kind, study.lens)
        points = study.point_runs()
        if json:
            print_json(
                {
                    "study": study.to_dict(),
                    "runs": len(study.runs()),
                    "points": [_predicted(p) for p in points],
                }
            )
        else:
            _print(study, points)
        for sentence in preflight(points):
            err().print(f"! not measured, the others are: {sentence}", style="yellow", markup=False)


def _print(study: Study, points: list[RunSpec]) -> None:
    predicted = [(spec, needed(spec), theory_of(spec)) for spec in points]  # refused before anything is printed
    console = out()
    console.print(dump(study), markup=False)
    console.print(f"{_planned(study)} once installed\n")
    table = Table(
        title="What theory says (modelled, not measured)",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for head in ("point", "quantity", "value"):
        table.add_column(head, justify="right" if head == "value" else "left", overflow="fold")
    for spec, (bytes_needed, words), theory in predicted:
        name = _name(spec)
        for quantity, estimate in theory.items():
            table.add_row(name, quantity, show(estimate.value, estimate.unit))
            name = ""
        table.add_row("", "memory needed", show(bytes_needed, "bytes"))
        table.add_row("", words, "")
    console.print(table)


def _name(spec: RunSpec) -> str:
    """A point by its precision and what holds its requests together: a batch, or an admission policy."""
    if spec.lens == "training":
        return spec.point.precision
    policy = policy_of(spec.point.model_dump(exclude_none=True))
    return f"{spec.point.precision}, {policy or f'batch {spec.point.batch}'}"


def _planned(study: Study) -> str:
    if study.search is None:
        return f"{len(study.runs())} runs, about {show(planned_s(study), 's')}"
    ways = len(study.points())
    searches = "1 search" if ways == 1 else f"{ways} searches"
    return f"{searches} of at most {study.search.most_points} runs, at most about {show(planned_s(study), 's')}"


def _predicted(spec: RunSpec) -> dict[str, Any]:
    bytes_needed, words = needed(spec)
    theory = {name: estimate.to_json() for name, estimate in theory_of(spec).items()}
    return {
        "point": spec.point.model_dump(mode="json"),
        "memory_bytes": bytes_needed,
        "memory": words,
        "theory": theory,
    }
