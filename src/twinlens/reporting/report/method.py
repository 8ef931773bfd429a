"""The method section of the report: the protocol in words, the runs, and the commands that repeat it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twinlens.errors import BadInput
from twinlens.pages import find, first_paragraph
from twinlens.record.beside import SearchRecord
from twinlens.record.run import Run
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Block, Cell, Letters, Line, Section, Table, Term, Title, row
from twinlens.reporting.load_kind import SERVED, TITLES, is_driven
from twinlens.reporting.view import View
from twinlens.reporting.wording.finding import clause_of, label_words, sentence_of
from twinlens.spec.load import dump
from twinlens.spec.point import FROM_LOG, WATCHED
from twinlens.spec.protocol import Protocol
from twinlens.spec.source.earlier import modern
from twinlens.spec.study import RunSpec, Study
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Summary
from twinlens.units import show


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The request of one lens and one way of loading: `spec` is a TOML file that `twinlens measure` runs again,
    "" where the program that ran is not Twinlens' own."""

    title: str
    protocol: tuple[str, ...]
    file: str
    spec: str


def method_blocks(view: View) -> Iterator[Block]:
    """The protocol of each lens with the file that repeats it, then every run."""
    for each in reproduce(view):
        yield Title(each.title, level=3)
        yield from (row("·", [sentence]) for sentence in each.protocol)
        if each.spec:
            yield Line(f"To measure it again, save this as {each.file} and run twinlens measure {each.file}:")
            yield Letters(tuple(each.spec.splitlines()), caption=each.file)
    count = len(view.material)
    yield Section("The run" if count == 1 else f"All {count} runs", (_runs(view),), on_paper=False)


def _runs(view: View) -> Table:
    rows = tuple(
        (Cell(clean(run.id)), Cell(run.state), Cell(f"{summary.rows:,}"),
         Cell(str(run.spec.seed)) if is_driven(run) else Cell("unknown", "dim"),
         Cell(label_words(summary.label)), Cell(_why(summary)))
        for run, summary in view.material
    )  # fmt: skip
    caption = "Each run is a folder of that name; the command twinlens show prints its metrics."
    sides = ("left", "left", "right", "right", "left", "left")
    return Table(caption, ("run", "state", "rows", "seed", "label", "why"), rows, sides, remarks=True)


def _why(summary: Summary) -> str:
    """The reason of the verdict on a run, and what was found in it."""
    is_late = summary.verdict.label == "invalid"  # its verdict has said so
    told = [sentence_of(each) for each in summary.findings if not (is_late and each.code == "client-limit")]
    return " ".join([f"{clause_of(summary.verdict.reason)}.", *told])


def reproduce(view: View) -> list[Reproduction]:
    """The protocol of each lens in sentences, and the spec of its first run with what the other runs swept.

    What was served stands apart, and each search too: they are specs of their own.
    """
    reproductions = []
    for lens in view.lenses:
        if (batches := lens.under("lockstep")).entries:
            runs = [run for entry in batches.entries for run, _ in entry.material]
            if driven := [run for run in runs if is_driven(run)]:
                reproductions.append(_reproduction(driven, lens.lens, lens.lens))
            reproductions += _of_others(runs)
        records = {record.folder.resolve(): record for record in view.searches}
        for load in SERVED:
            runs = [run for entry in lens.under(load).entries for run, _ in entry.material]
            rest = [run for run in runs if run.folder.resolve().parent not in records]
            if rest:
                reproductions.append(_served(rest, f"{lens.lens}, {TITLES[load]}", load))
            for folder, record in records.items():
                if mine := [run for run in runs if run.folder.resolve().parent == folder]:
                    reproductions.append(_served(mine, f"{lens.lens}, a search for the highest load", "search", record))
    return reproductions


def _of_others(runs: list[Run]) -> list[Reproduction]:
    """Runs of programs that somebody else started: how long they run, and on which data, is theirs to decide."""
    return [
        Reproduction(title, (words, _WINDOW), "", "")
        for kind, (title, words) in _OTHERS.items()
        if any(run.spec.executor.kind == kind for run in runs)
    ]


_WINDOW = "Warm-up was found from the rows themselves; only the steady window counts."
_OTHERS = {
    WATCHED: (
        "a loop of your own",
        "tl.watch recorded the steps of a loop in a program of its own, which decides duration, seed and data; "
        "run that program again to measure it again.",
    ),
    FROM_LOG: (
        "a trainer's log",
        "The rows are lines of a log, which says neither seed nor data; its finding says what was measured here.",
    ),
}


def _reproduction(runs: list[Run], title: str, word: str) -> Reproduction:
    first = runs[0].spec
    protocol = first.protocol
    times = "once" if protocol.extend == 1 else f"up to {protocol.extend} times"
    extended = f", and doubled {times} where not steady" if protocol.extend else ""
    sentences = (
        f"Rows were taken for {show(protocol.duration_s, 's')}, and on until there were {protocol.min_rows} (for three "
        f"durations and ten seconds at most), warm-up included{extended}.",
        _WINDOW,
        f"{protocol.repeats} repeats were asked per operating point, {_where(protocol)}, in a seeded random order.",
        _seeds(runs),
    )
    return Reproduction(title, sentences, _file(first, word), _toml(runs))


def _served(runs: list[Run], title: str, word: str, record: SearchRecord | None = None) -> Reproduction:
    first = runs[0].spec
    protocol = first.protocol
    how_often = (
        f"{protocol.repeats} repeats were asked per operating point, {_where(protocol)}, in a seeded random order."
        if record is None
        else f"Each value was measured once, where unclear up to {record.search.tries} times, {_where(protocol)}."
    )
    sentences = (
        f"Requests were due over {show(protocol.duration_s, 's')}; a run ends with the last answer.",
        "Warm-up was found from the rows themselves; a request counts if it was due inside the window.",
        how_often,
        _seeds(runs),
    )
    return Reproduction(title, sentences, _file(first, word), _toml(runs, record))


def _where(protocol: Protocol) -> str:
    return "each run in a process of its own" if protocol.isolate else "all runs in one process"


def _seeds(runs: list[Run]) -> str:
    seeds = sorted({run.spec.seed for run in runs})
    return (
        f"Seeds: {', '.join(map(str, seeds[:12]))}{' and more' if len(seeds) > 12 else ''}; "
        "a seed fixes weights, data and prompts."
    )


def _file(spec: RunSpec, word: str) -> str:
    return f"{clean(spec.name, 40).replace(' ', '-')}-{word}.toml"


def definition(metric_id: str) -> str:
    """The meaning of a metric: the first paragraph of its page, or its name and unit where it has no page."""
    try:
        return first_paragraph(find(metric_id))
    except BadInput:
        metric = METRICS.get(metric_id)
        return f"{metric.label}, in {metric.unit}" if metric else metric_id


def definitions(ids: Sequence[str]) -> tuple[Term, ...]:
    """Metrics with what they mean, those of one page together."""
    together: dict[str, list[tuple[str, str, str]]] = {}
    for id in ids:
        metric = METRICS[id]
        together.setdefault(definition(id), []).append((id, metric.label, "" if metric.lens == "both" else metric.lens))
    return tuple(Term(tuple(names), text) for text, names in together.items())


def _toml(runs: list[Run], record: SearchRecord | None = None) -> str:
    asked = runs[0].spec.to_dict()
    asked.pop("repeat", None)
    points = [run.spec.to_dict()["point"] for run in runs]
    if record is not None:
        asked["search"] = record.search.model_dump(mode="json")
        for point in (asked["point"], *points):
            point[record.search.over] = None
    swept = {
        key: values
        for key in points[0]
        if len(values := list(dict.fromkeys(point[key] for point in points if point[key] is not None))) > 1
    }
    if swept:
        asked["sweep"] = swept
    return dump(Study.model_validate_json(json.dumps(modern(asked))))
