"""How it was measured, for a page: the protocol in words, the runs, and what to type to do it again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from twinlens.errors import BadInput
from twinlens.pages import find, first_paragraph
from twinlens.record.run import Run
from twinlens.report.cell import clean
from twinlens.report.view import LensView
from twinlens.spec.load import dump
from twinlens.spec.study import Study
from twinlens.stats.metrics.definition import METRICS, Metric
from twinlens.units import show


@dataclass(frozen=True, slots=True)
class Again:
    """What was asked in one lens: `spec` is a TOML file that `twinlens measure` runs again."""

    lens: str
    protocol: tuple[str, ...]
    file: str
    spec: str


def again(lens: LensView) -> Again:
    """The protocol of a lens in sentences, and the spec of its first run with what the other runs swept."""
    runs = [run for entry in lens.entries for run, _ in entry.material]
    first = runs[0].spec
    protocol = first.protocol
    seeds = sorted({run.spec.seed for run in runs})
    times = "once" if protocol.extend == 1 else f"up to {protocol.extend} times"
    extended = f", and doubled {times} where not steady" if protocol.extend else ""
    where = "each run in a process of its own" if protocol.isolate else "all runs in one process"
    sentences = (
        f"Rows were taken for {show(protocol.duration_s, 's')} or {protocol.min_rows} rows, "
        f"whichever is longer, warm-up included{extended}.",
        "Warm-up was found from the rows themselves; only the steady window counts.",
        f"{protocol.repeats} repeats were asked per operating point, {where}, in a seeded random order.",
        f"Seeds: {', '.join(map(str, seeds[:12]))}{' and more' if len(seeds) > 12 else ''}; "
        "a seed fixes weights, data and prompts.",
    )
    name = f"{clean(first.name, 40).replace(' ', '-')}-{lens.lens}.toml"
    return Again(lens.lens, sentences, name, _toml(runs))


def definition(id: str) -> str:
    """What a metric means: the first paragraph of its page, or its name and unit where it has no page."""
    try:
        return first_paragraph(find(id))
    except BadInput:
        metric = METRICS.get(id)
        return f"{metric.label}, in {metric.unit}" if metric else id


def definitions(ids: Sequence[str]) -> tuple[tuple[tuple[Metric, ...], str], ...]:
    """Metrics with what they mean, those of one page together."""
    together: dict[str, list[Metric]] = {}
    for id in ids:
        together.setdefault(definition(id), []).append(METRICS[id])
    return tuple((tuple(metrics), text) for text, metrics in together.items())


def _toml(runs: list[Run]) -> str:
    asked = runs[0].spec.to_dict()
    asked.pop("repeat", None)
    points = [run.spec.to_dict()["point"] for run in runs]
    swept = {
        key: values
        for key in points[0]
        if len(values := list(dict.fromkeys(point[key] for point in points if point[key] is not None))) > 1
    }
    if swept:
        asked["sweep"] = swept
    return dump(Study.model_validate_json(json.dumps(asked)))
