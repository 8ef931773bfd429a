"""Points of packs as a site shows them: each figure with its interval, n, origin, and where its rows are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.compare import sides_of
from twinlens.comparison.side import Side
from twinlens.record.codec import decode
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.store import read_run
from twinlens.reporting import display
from twinlens.reporting.display import clean
from twinlens.reporting.run.grid import TablePart, parts_of
from twinlens.reporting.run.points import why_rows
from twinlens.spec.precision import Lens
from twinlens.stats.run_summary import from_json
from twinlens.web.published.packs import Pack

MOST_FIGURES = 4
UNKNOWN = "not stated"
MEANINGS = "; ".join(f"{mark} {state}" for state, mark in display.MARKS.items()) + "."


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table of the site. `below`: in small letters; `href`: from the page that it stands on."""

    text: str
    below: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under heads; `metrics`: for each head the metric that it is about, "" for none."""

    caption: str
    heads: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """What packs of one key hold. `told`: as `read_pack` gives it; `rows`: the place of each run by its id."""

    packs: tuple[Pack, ...]
    told: Mapping[str, Any]
    sides: tuple[Side, ...]
    rows: Mapping[str, int]

    @property
    def lenses(self) -> dict[Lens, int]:
        """How many points of each lens."""
        found: dict[Lens, int] = {}
        for side in self.sides:
            found[side.lens] = found.get(side.lens, 0) + 1
        return found


def held(packs: Sequence[Pack], told: Mapping[str, Any], place: Path) -> Held:
    """Sides of the runs that were read, from their records below `place`."""
    material = tuple(
        (read_run(place / each["folder"]), from_json(dict(each["summary"]))) for each in told.get("runs", ())
    )
    sides = sides_of(material, packs[0].name, is_named=False) if material else []
    rows = {run.id: number for number, (run, _) in enumerate(material, start=1)}
    return Held(tuple(packs), told, tuple(sides), rows)


def findings_of(told: Mapping[str, Any]) -> tuple[Finding, ...]:
    """What was found of the runs of a pack."""
    return tuple(decode(Finding, each) for each in told["findings"])


def model_of(side: Side) -> str:
    return clean(side.group.model, 80) or UNKNOWN


def executor_of(side: Side) -> str:
    return clean(side.group.runs[0].executor, 80) or UNKNOWN


def machine_of(side: Side) -> str:
    machine = side.group.machine
    return (clean(machine.name, 80) or UNKNOWN) if machine else UNKNOWN


def name_of(side: Side) -> str:
    """The mark of its state, and its name."""
    return f"{display.MARKS[side.group.validity]} {clean(side.name, 80)}"


def figure(estimate: Estimate | None, why: str = "") -> Cell:
    """A figure with its interval, n and origin; a dash with the reason where there is none."""
    if estimate is None or estimate.value is None:
        return Cell(display.ABSENT, why or display.absence(estimate))
    return Cell(display.value(estimate), " · ".join(evidence(estimate)))


def evidence(estimate: Estimate) -> list[str]:
    """The interval in words, n, and the origin of a figure."""
    kind = display.level(estimate)
    bounds = display.bounds(estimate)
    words = f"{bounds} ({kind}{', one run' if display.kind(estimate) == 'run' else ''})" if bounds else ""
    count = f"n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{estimate.n:,}" if estimate.n is not None else "n not stated"
    return [words or f"no interval: {display.no_interval(estimate, counted=False)}", count, estimate.origin]


def points(held: Held, up: str, pack: str, only: Sequence[Side] | None = None) -> list[Table]:
    """The points of a pack: a table for each lens, model, machine and kind of load. `pack`: the way to its folder;
    `up`: the way from the page to the root."""
    chosen = held.sides if only is None else only
    by_group = {id(side.group): side for side in chosen}
    return [_table(part, by_group, held, up, pack) for part in parts_of([side.group for side in chosen])]


def _table(part: TablePart, sides: Mapping[int, Side], held: Held, up: str, pack: str) -> Table:
    columns = part.columns[:MOST_FIGURES]
    rows = []
    for group in part.groups:
        side = sides[id(group)]
        estimates = [(column, column.estimate(group)) for column in columns]
        rows.append((
            Cell(name_of(side), executor_of(side)),
            *(figure(pair[1] if pair else None, column.reason(group, counted=False)) for column, pair in estimates),
            rows_cell(side, held, pack),
        ))  # fmt: skip
    first = sides[id(part.groups[0])]
    caption = f"{part.lens.capitalize()} of {model_of(first)} on {machine_of(first)}. {MEANINGS}"
    heads = ("point", *(column.label.replace("\n", " ") for column in columns), "rows")
    notes = tuple(words for row in why_rows(part) for words in row.clauses)
    return Table(caption, heads, ("", *(column.ids[0] for column in columns), ""), tuple(rows), notes)


def rows_cell(side: Side, held: Held, pack: str) -> Cell:
    """A link to the rows of a point."""
    runs, count = len(side.runs), sum(run.rows for run in side.group.runs)
    text = f"{count:,} rows, {runs} run{'' if runs == 1 else 's'}"
    return Cell(text, "", f"{pack}rows.html#run-{held.rows[side.runs[0].id]}")
