"""`twinlens check`: the spec resolved, what it stands for, and what theory says of it; nothing is touched."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from twinlens.api.studies import check
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.cli.settings import as_settings
from twinlens.measurement.preflight.check import Check
from twinlens.reporting.load_kind import policy_of
from twinlens.spec.load import dump, load
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.collective import CollectiveWorkload
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.units import show


def run(path: Path, settings: list[str], at: list[str], json: bool) -> None:
    with sentences():
        checked = check(load(path, [*as_settings(at), *settings]), refuse=False)
        if json:
            print_json(checked.to_json())
        else:
            _print(checked)
        for sentence in checked.lacking:
            err().print(f"! not measured, the others are: {sentence}", style="yellow", markup=False)
        if checked.refusal is not None:
            raise checked.refusal


def _print(checked: Check) -> None:
    console = out()
    console.print(dump(checked.study), markup=False)
    console.print(f"{_planned(checked)} once installed\n")
    for sentence in _quantiles(checked):
        console.print(sentence, markup=False)
    table = Table(
        title="What theory says (modelled, not measured)",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for head in ("point", "quantity", "value"):
        table.add_column(head, justify="right" if head == "value" else "left", overflow="fold")
    for point in checked.points:
        name = _name(point.spec)
        if point.spec.lens == "collective":
            table.add_row(name, point.memory, "")
            continue
        for quantity, estimate in point.theory.items():
            table.add_row(name, quantity, show(estimate.value, estimate.unit))
            name = ""
        table.add_row("", "memory needed", show(point.memory_bytes, "bytes"))
        table.add_row("", point.memory, "")
    console.print(table)


def _quantiles(checked: Check) -> list[str]:
    """A line for each rate: how many requests a run has, the quantiles they are enough for, a duration for others."""
    if not checked.requests:
        return []
    needed = ", ".join(f"{name} {count}" for name, count in checked.requests[0].needed.items())
    lines = [f"Requests of one run in {checked.study.protocol.duration_s:g} s; at least needed: {needed}"]
    for at_rate in checked.requests:
        enough = [name for name, count in at_rate.needed.items() if at_rate.expected >= count]
        short = [
            f"{name} with protocol.duration_s={at_rate.duration_s[name]:g}"
            for name in at_rate.needed
            if name not in enough
        ]
        parts = "; ".join(filter(None, [f"enough for {', '.join(enough)}" if enough else "", *short]))
        lines.append(f"  at {at_rate.rate_per_s:g}/s about {at_rate.expected:.0f}: {parts}")
    return [*lines, ""]


def _name(spec: RunSpec) -> str:
    """A point by its precision and what holds its requests together: a batch, or an admission policy."""
    if isinstance(spec.workload, CollectiveWorkload):
        return show(spec.workload.size_bytes, "bytes")
    if spec.lens == "training":
        return spec.point.precision
    policy = policy_of(spec.point.model_dump(exclude_none=True))
    is_served = isinstance(spec.workload, InferenceWorkload) and spec.workload.arrival.kind != "lockstep"
    return ", ".join(filter(None, [spec.point.label, policy or ("" if is_served else f"batch {spec.point.batch}")]))


def _planned(checked: Check) -> str:
    time, search = show(checked.expected_s, "s"), checked.study.search
    if search is None:
        return f"{checked.runs} run{'s' * (checked.runs != 1)}, about {time}"
    ways = len(checked.points)
    return f"{ways} search{'es' * (ways != 1)} of at most {search.most_points} runs, at most about {time}"
