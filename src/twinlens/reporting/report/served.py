"""Points that were served, for a report: their searches and switches, whether to believe them, and their charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from altair.utils import schemapi

from twinlens.comparison.lenses import switch_rows
from twinlens.comparison.side import Side, rates_of
from twinlens.record.beside import SearchRecord
from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.chart.figure import Figure
from twinlens.reporting.chart.latency import latency_charts
from twinlens.reporting.chart.pareto import goodput_chart, pareto_chart
from twinlens.reporting.chart.rate import search_chart
from twinlens.reporting.chart.serving_time import serving_timeline
from twinlens.reporting.chart.tail import tail_chart
from twinlens.reporting.document.block import Block, Cell, Drawing, Line, Section, Table, Title, cells
from twinlens.reporting.load_kind import SERVED, fault_of, load_of
from twinlens.reporting.run.grid import absent_words
from twinlens.reporting.search import search_document
from twinlens.reporting.tables import switches_document
from twinlens.reporting.view import Entry, LensView
from twinlens.reporting.wording.finding import clause_of, label_words
from twinlens.stats.client import MOST_LOAD
from twinlens.units import SECONDS, TOKENS_PER_S, digits, show

_CHECKED = (
    ("client_lag_s_p99", "sent late p99"),
    ("read_lag_s_p99", "read late p99"),
    ("client_load", "client load"),
    ("arrival_distance", "arrivals off plan"),
    ("failed_share", "failed"),
)
"""The metrics that a verdict on a run rests on, with their heads."""
_GUARDS = (
    "Guards after MLPerf's compliance tests: a server that caches answers, shortens them or changes them under load is "
    "not faster."
)


def served_blocks(lens: LensView, entries: tuple[Entry, ...], tables: Sequence[Block], mark: str,
                  searches: Sequence[SearchRecord]) -> Iterator[Block]:  # fmt: skip
    """One model on one machine: searches, `tables`, switches, checks and charts, whose ids begin with `mark`."""
    folders = {run.folder.resolve().parent for entry in entries for run, _ in entry.material}
    for number, record in enumerate(searches):
        if record.folder.resolve() in folders:
            yield from _search(record, f"{mark}-search{number}")
    yield from tables
    yield from _switches(entries)
    yield Section("Can these numbers be believed?", tuple(checks(entries)), level=4, on_paper=False)
    model = display.clean(entries[0].group.model, 60)
    charts, timelines = charts_of(lens, entries, mark)
    if charts:
        title = f"{len(charts)} chart{'s' if len(charts) > 1 else ''} of {model}, served"
        yield Section(title, (Drawing(lambda: charts),), on_paper=False)
    if timelines:
        title = f"How {'the point' if len(timelines) == 1 else f'the {len(timelines)} points'} went"
        yield Section(title, (Drawing(lambda: timelines),), on_paper=False)


def charts_of(lens: LensView, entries: tuple[Entry, ...], mark: str, *, checked: bool = False
              ) -> tuple[tuple[Figure, ...], tuple[Figure, ...]]:  # fmt: skip
    """The charts of these points, and one over time for each. Altair's own checks (`checked`) are for tests."""
    with schemapi.debug_mode(checked):
        loads = [load for load in SERVED if any(load_of(entry.group) == load for entry in entries)]
        drawn: list[Figure | None] = [chart for load in loads for chart in latency_charts(entries, load, mark)]
        drawn += [goodput_chart(entries, f"{mark}-goodput")]
        drawn += [pareto_chart(entries, load, f"{mark}-{load}-pareto") for load in loads]
        precisions = dict.fromkeys(each.kind for each in lens.under("rate", "other").entries if each in entries)
        mine = tuple(entry for entry in entries if load_of(entry.group) in ("rate", "other"))
        drawn += [tail_chart(mine, name, f"{mark}-tail{place}") for place, name in enumerate(precisions)]
        times = [serving_timeline(entry, f"{mark}-time{place}") for place, entry in enumerate(entries)]
    return tuple(each for each in drawn if each is not None), tuple(each for each in times if each is not None)


def _search(record: SearchRecord, mark: str) -> Iterator[Block]:
    """Each search with its answer, its runs and its chart."""
    yield from (replace(each, level=4) if isinstance(each, Title) else each for each in search_document(record).blocks)
    charts = [search_chart(record, result, f"{mark}-{place}") for place, result in enumerate(record.results)]
    drawn = tuple(each for each in charts if each is not None)
    yield from [Drawing(lambda: drawn)] if drawn else []


def _switches(entries: tuple[Entry, ...]) -> Iterator[Block]:
    """Each switch against the default; nothing where the points differ in none."""
    chosen = [Side(entry.name, entry.group, tuple(run for run, _ in entry.material)) for entry in entries]
    if any(side.group.switches is not None for side in chosen) and (rows := switch_rows(chosen, rates_of(chosen))):
        yield from switches_document(rows).blocks


# Whether the client, the load and the server itself allow the numbers.


def checks(entries: Sequence[Entry]) -> Iterator[Block]:
    """The verdicts on all points, with the figures that any of them has; then the rulings of guards."""
    yield Line(calibration(entries))
    found = {id: [entry.group.metrics.get(id) for entry in entries] for id, _ in _CHECKED}
    heads = [(id, head) for id, head in _CHECKED if any(map(_is_measured, found[id]))]
    rows = tuple(
        (
            Cell(entry.name, "" if entry.group.ranked else "dim", colour=entry.precision),
            *cells(_verdicts(entry)),
            *(_figure(entry.group.metrics.get(id)) for id, _ in heads),
        )
        for entry in entries
    )
    yield Table(
        "The client and the load of each point, and the figures behind the verdict.",
        ("operating point", "client", "load", *(head for _, head in heads)),
        rows,
        ("left",) * 3 + ("right",) * len(heads),
        keys=("", "", "", *(id for id, _ in heads)),
    )
    absent = [(head, display.absence(found[id][0])) for id, head in _CHECKED if (id, head) not in heads]
    yield Line(absent_words(absent), "dim")
    yield from _guards(entries)


def _is_measured(estimate: Estimate | None) -> bool:
    return estimate is not None and estimate.value is not None


def _verdicts(entry: Entry) -> tuple[str, str]:
    """On the client, and on the load."""
    group = entry.group
    if not any(run.sections.client for run, _ in entry.material):
        client = "not recorded"
    else:
        is_invalid = any(summary.verdict.label == "invalid" for _, summary in entry.material)
        client = "at its limit" if is_invalid else "good"
    return client, "not judged" if group.label == "invalid" else fault_of(group) or label_words(group.label)


def _figure(estimate: Estimate | None) -> Cell:
    if estimate is None or estimate.value is None:
        return Cell(display.ABSENT, why=f"not measured: {display.absence(estimate)}")
    return Cell(display.value(estimate, 2))


def calibration(entries: Sequence[Entry]) -> str:
    """The client's calibration against a server that computes nothing, before the runs, in one sentence."""
    known = [measured for entry in entries for run, _ in entry.material if (measured := run.sections.calibration)]
    count = sum(len(entry.material) for entry in entries)
    if not known:
        return "The client was not calibrated before these runs, so its own share in their times is not known."
    ceiling, added, lag = ([float(getattr(each, key)) for each in known] for key in _KEYS)
    return (
        f"Before {len(known)} of {count} runs the client was calibrated against a server that computes nothing: "
        f"it takes {_range(ceiling, TOKENS_PER_S)}, adds {_range(added, SECONDS)} to a first token, and sends "
        f"{_range(lag, SECONDS)} late (p99). Above {100 * MOST_LOAD:.0f}% of what it takes a run is invalid."
    )


_KEYS = ("ceiling_tokens_per_s", "added_latency_s", "lag_s_p99")


def _range(values: list[float], unit: str) -> str:
    if not values:
        return "an amount that was not recorded"
    low, high = min(values), max(values)
    if unit == TOKENS_PER_S:
        return f"{digits(low)} tokens/s" if low == high else f"{digits(low)} to {digits(high)} tokens/s"
    return show(low, unit, 2) if low == high else f"{show(low, unit, 2)} to {show(high, unit, 2)}"


def _guards(entries: Sequence[Entry]) -> Iterator[Block]:
    """The rulings of all guards, failures first; nothing where none were asked for."""
    told = [
        (
            entry.name,
            *(display.clean(each, 40) for each in (guard.id, guard.after, guard.ruling)),
            clause_of(guard.reason),
        )
        for entry in entries
        for run, _ in entry.material
        for guard in run.sections.guards
    ]
    told.sort(key=lambda each: each[3] != "fail")
    if told:
        yield Title("Does the server do the work?", level=4)
        heads = ("operating point", "guard", "after", "ruling", "why")
        rows = tuple(cells(each, "bad" if each[3] == "fail" else "") for each in told)
        yield Table(_GUARDS, heads, rows, ("left",) * 5, remarks=True)
