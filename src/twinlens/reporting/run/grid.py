"""Points as tables: one for each lens, model, machine and kind of load; what all of them share is said once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Block, Brief, Cell, Line, Notes, Table, Tone
from twinlens.reporting.gate import agreement_of, agreement_words, gate_reason, gate_word, why_no_gate
from twinlens.reporting.load_kind import SERVED, TITLES, LoadKind, kind_of, load_of, place_of
from twinlens.reporting.machine import place_named
from twinlens.reporting.paired import Paired
from twinlens.reporting.point_name import point_names, precision_of
from twinlens.reporting.run.cell import cell_of
from twinlens.reporting.text.column import GATE, PLACE_HEADS, Column, columns, served_columns
from twinlens.reporting.text.sentence import against, reference_of
from twinlens.reporting.view import LENSES, in_order, runs_word
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Group
from twinlens.units import scale


@dataclass(frozen=True, slots=True)
class TablePart:
    """Points that may stand in one table."""

    lens: Lens
    load: LoadKind
    groups: tuple[Group, ...]

    @property
    def wanted(self) -> tuple[Column, ...]:
        """The columns of its lens and load; the quality check has words of its own."""
        if self.load not in SERVED:
            return columns(self.lens, self.groups)
        return tuple(column for column in served_columns(self.groups) if column is not GATE)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those in which any point has a figure."""
        return tuple(column for column in self.wanted if has_value(column, self.groups))

    @property
    def absent(self) -> list[tuple[str, str]]:
        """The labels of the others, each with the reason of the first point."""
        return [(each.label, each.reason(self.groups[0], counted=False)) for each in self.wanted
                if each not in self.columns]  # fmt: skip

    @property
    def shown(self) -> list[Estimate]:
        """The estimates in it."""
        return [pair[1] for column in self.columns for group in self.groups if (pair := column.estimate(group))]


def parts_of(groups: Sequence[Group]) -> tuple[TablePart, ...]:
    """Groups by lens, model, machine and kind of load, training first."""
    parts: dict[tuple[Lens, str, str, LoadKind], list[Group]] = {}
    for lens in LENSES:
        for group in in_order([group for group in groups if group.lens == lens]):
            parts.setdefault((lens, group.model, group.tag, load_of(group)), []).append(group)
    return tuple(
        # Points that are not valid stand last, but for a load, whose points have an order of their own.
        TablePart(lens, load, tuple(mine if load in SERVED else sorted(mine, key=lambda each: not each.ranked)))
        for (lens, _, _, load), mine in parts.items()
    )


def has_value(column: Column, groups: Sequence[Group]) -> bool:
    """Whether any point has a figure in this column."""
    return any((pair := column.estimate(group)) is not None and pair[1].value is not None for group in groups)


def titles_of(parts: Sequence[TablePart], *, has_lens: bool = True) -> tuple[str, tuple[str, ...]]:
    """What all parts share ("" of one part), and a title for each with the rest. `has_lens`: its lens first."""
    told = [_circumstances(part) for part in parts]
    shared = [word for word in told[0] if all(word in others for others in told)] if len(parts) > 1 else []
    titles = (
        " · ".join([*_heads_of(part)[not has_lens :], *(word for word in words if word not in shared)])
        for part, words in zip(parts, told, strict=True)
    )
    return " · ".join(shared), tuple(titles)


def _heads_of(part: TablePart) -> list[str]:
    """ "Inference", "small", "served at a rate (open loop)"."""
    served = TITLES[part.load] if part.load in SERVED else ""
    return [word for word in (part.lens.capitalize(), clean(part.groups[0].model, 60), served) if word]


def _circumstances(part: TablePart) -> list[str]:
    """Software, machine, how many runs, and on which days."""
    first, machine = part.groups[0], part.groups[0].machine
    place = place_named(first) or (clean(machine.name, 60) if machine else "")
    stacks = {group.machine.software for group in part.groups if group.machine and not group.machine.is_attached}
    software = clean(stacks.pop(), 60) if len(stacks) == 1 else ""  # of several, each point's name has its executor
    counts = {len(group.runs) for group in part.groups}
    runs = f"{runs_word(max(counts))} each" if len(counts) == 1 else ""
    days = sorted({clean(run.run[:10], 10) for group in part.groups for run in group.runs})
    return [word for word in (software, place, runs, " to ".join(dict.fromkeys((days[0], days[-1])))) if word]


@dataclass(frozen=True, slots=True)
class _Column:
    """A head of two lines, a cell for each point, how soon it is left out of a narrow table (0: never), its metric."""

    head: str
    cells: tuple[Cell, ...]
    dropped: int = 0
    key: str = ""
    side: str = "right"


_RANK = {"of peak": 11, "memory": 9, "TPOT p99": 7, "TPOT p50": 6, "energy": 5, "loss": 3, "MBU": 3, "MFU": 2,
         "exchanges/s": 4, "algbw": 3}  # fmt: skip
"""The columns that are left out first: the higher, the sooner."""


def points_table(part: TablePart, turns: Sequence[Paired] = ()) -> Table:
    """A row for each point: name, place, figures with their intervals, factor, quality check, runs and day.

    `turns`: ratios of points that took turns, which are their factors.
    """
    groups, served = part.groups, part.load in SERVED
    wanted = [_texts("point", groups, _names(groups, served), side="left")]
    factors: list[_Column] = []
    if served:
        wanted.append(_texts(PLACE_HEADS[part.load].replace(" ", "\n"), groups, [f"{place_of(g):.4g}" for g in groups]))
    for place, column in enumerate(part.columns):
        wanted.append(_figures(column, groups, _RANK.get(column.head, 0)))
        if not place and not served:
            factors = _factors(groups, turns)
            wanted += factors
        if part.lens == "inference" and column.head == "memory":
            wanted += _quality(groups, served)
    if served:
        wanted += _quality(groups, served)
    if any(group.retaken for group in groups) or len({len(group.runs) for group in groups}) > 1:
        wanted.append(_texts("runs", groups, list(map(_runs, groups)), 10))
    if len({_days(group) for group in groups}) > 1:
        wanted.append(_texts("day", groups, list(map(_days, groups)), 8))
    return _table(wanted, _caption(part, has_factors=bool(factors)))


def _caption(part: TablePart, *, has_factors: bool) -> str:
    """What the table is of, what its marks mean, and the kind of interval under its numbers."""
    reference = next((each for each in map(precision_of, part.groups) if each == "fp32"), "the first row")
    factor = f" The factor is against {reference}." if has_factors else ""
    of = f"{part.lens.capitalize()} of {clean(part.groups[0].model, 60)} by operating point."
    return f"{of} {_MEANINGS} {_intervals(part.shown)}{factor}"


_MEANINGS = "; ".join(f"{mark} {state}" for state, mark in display.MARKS.items()) + "."


def _intervals(shown: Sequence[Estimate]) -> str:
    """The kind of interval under the numbers of a table: intervals over runs or within one, or ranges of two."""
    kinds = {display.kind(estimate) for estimate in shown} - {""}
    if not kinds:
        return "No number has an interval; notes say why."
    if kinds == {"range"}:
        return "Under each number stands the range of its two runs: no confidence is claimed."
    if kinds == {"run"}:
        return "Under each number stands its 95% interval within the one run, which says nothing of other runs."
    marked = "; (run) marks one within a single run, (range) that of two runs" if kinds & {"run", "range"} else ""
    return f"Under each number stands its 95% interval over runs, where there is one{marked}."


def figures_table(part: TablePart, chosen: Sequence[Column], caption: str) -> Table:
    """A row for each point with its name, its load and these columns alone."""
    groups = part.groups
    places = _texts(PLACE_HEADS[part.load].replace(" ", "\n"), groups, [f"{place_of(each):.4g}" for each in groups])
    return _table([_texts("point", groups, _names(groups, True), side="left"), places,
                   *(_figures(column, groups, 1) for column in chosen)], caption)  # fmt: skip


def _table(shown: Sequence[_Column], caption: str) -> Table:
    places = sorted((n for n, each in enumerate(shown) if each.dropped), key=lambda n: -shown[n].dropped)
    return Table(
        caption,
        tuple(each.head for each in shown),
        tuple(zip(*(each.cells for each in shown), strict=True)),
        tuple(each.side for each in shown),
        drop=tuple(places),
        keys=tuple(each.key for each in shown),
    )


def _cell(column: Column, group: Group, divisor: float) -> Cell:
    """A figure of a point, or why no run of it has one."""
    metric, estimate = column.estimate(group) or (column.ids[0], None)
    absent = f"{column.label}: not measured: {column.reason(group, counted=False)}"
    return cell_of(metric, estimate, absent, _tone(group), divisor=divisor)


def _figures(column: Column, groups: Sequence[Group], rank: int) -> _Column:
    """A column in one unit, which its head names."""
    known = [pair[1] for group in groups if (pair := column.estimate(group)) is not None and pair[1].value is not None]
    divisor, unit = scale(known[0].unit, median(abs(one.value or 0.0) for one in known)) if known else (1.0, "")
    below = "" if column.bare and not column.head.endswith("/s") else unit
    head = column.head.removesuffix(" /s")
    cells = tuple(_cell(column, group, divisor) for group in groups)
    return _Column(f"{head}\n{'' if below in head else below}", cells, rank, column.ids[0])


def _names(groups: Sequence[Group], served: bool) -> list[str]:
    names = [kind_of(group) for group in groups] if served else point_names(groups)
    return [f"{display.MARKS[group.validity]} {name}" for group, name in zip(groups, names, strict=True)]


def _texts(head: str, groups: Sequence[Group], texts: Sequence[str], rank: int = 0, side: str = "right") -> _Column:
    """Words of each point; names have the colour of their line in the charts."""
    colours = [precision_of(group) if side == "left" else "" for group in groups]
    cells = tuple(Cell(text, _tone(group), colour=colour) for group, text, colour in
                  zip(groups, texts, colours, strict=True))  # fmt: skip
    return _Column(head, cells, rank, side=side)


def _quality(groups: Sequence[Group], served: bool) -> list[_Column]:
    """The quality check of each point, with the share of tokens that agree; nothing where nothing was compared."""
    measured: Callable[[Group], bool] = (
        (lambda each: bool(agreement_of(each))) if served else lambda each: gate_word(each) != "not measured"
    )
    if not any(map(measured, groups)):
        return []
    return [_Column("quality", tuple(map(_checked, groups)), 4, "top1_agreement")]


def _checked(group: Group) -> Cell:
    word, agreed = gate_word(group), agreement_of(group)
    tones: dict[str, Tone] = {"pass": "good", "fail": "bad"}
    if word == "not measured":
        return Cell(display.ABSENT, _tone(group), why=f"quality: not measured: {why_no_gate(group)}")
    why = gate_reason(group) if word == "fail" else ""
    text = {"reference": "ref"}.get(word, word)
    return Cell(text, tones.get(word, _tone(group)), display.value(agreed[1]) if agreed else "",
                f"quality: {why}" if why else "", agreement_words(group))  # fmt: skip


def _factors(groups: Sequence[Group], turns: Sequence[Paired]) -> list[_Column]:
    """The ratios to the reference; nothing where there is none."""
    cells = tuple(_factor(each, groups, turns) for each in groups)
    return [_Column("factor", cells, 12)] if any(cell.beside not in ("", "reference") for cell in cells) else []


def _factor(group: Group, groups: Sequence[Group], turns: Sequence[Paired]) -> Cell:
    """The ratio to the reference: that of paired slices where the two took turns, else of their rates."""
    headlines = [pair for pair in turns if pair.is_headline and pair.ranked]
    if pair := next((pair for pair in headlines if pair.group is group), None):
        bounds = f"{display.factor_bounds(pair.result.ratio)}, paired"
        return Cell(display.factor(pair.result.ratio), beside=bounds)
    reference = reference_of(group, list(groups))
    if reference is None and (group.ranked or any(pair.reference is group for pair in headlines)):
        return Cell("1", beside="reference")
    ratio = None if reference is None else against(group, reference)
    if ratio is None or ratio.value is None:
        why = "not valid" if ratio is None else display.absence(ratio)
        return Cell(display.ABSENT, _tone(group), why=f"factor: {why}")
    return Cell(display.factor(ratio), _tone(group), display.factor_bounds(ratio) or "no interval")


def _tone(group: Group) -> Tone:
    return "" if group.ranked else "dim"


def _runs(group: Group) -> str:
    """ "3", or "3 + 1 again" where one was disturbed and taken again."""
    again = len(group.retaken)
    return f"{len(group.runs)}{f' + {again} again' if again else ''}"


def _days(group: Group) -> str:
    """The day of its first run, as month and day; runs of several days have a + after it."""
    days = sorted({clean(run.run[:10], 10) for run in group.runs})
    return f"{days[0][5:]}{'+' if len(days) > 1 else ''}"


# Every metric of a run or a point.


_METRIC_SIDES = ("left", "right", "right", "right", "left")


def metric_blocks(metrics: Mapping[str, Estimate], caption: str, lacks: Callable[[str], str] | None = None
                  ) -> tuple[Block, ...]:  # fmt: skip
    """Each metric with its interval, how often it was seen, its origin and method; then what is absent, by reason.

    `lacks`: the reason of an absent one, where its own says less.
    """
    groups = list(dict.fromkeys(metric.group for metric in METRICS.values()))
    order = [*(id for id in METRICS if id in metrics), *(id for id in metrics if id not in METRICS)]
    known = [id for id in order if metrics[id].value is not None]
    known.sort(key=lambda id: groups.index(METRICS[id].group) if id in METRICS else len(groups))
    rows = tuple(_metric(id, metrics[id]) for id in known)
    table = Table(caption, ("metric", "value", "interval", "n", "origin"), rows, _METRIC_SIDES, gap=1,
                  row_keys=tuple(known), reasons="method")  # fmt: skip
    absent = [(_label(id), clean((lacks(id) if lacks else "") or metrics[id].lacks)) for id in order if id not in known]
    return table, Notes(), Line(absent_words(absent), "dim")


def _label(id: str) -> str:
    return METRICS[id].label if id in METRICS else clean(id, 40)


def _metric(id: str, estimate: Estimate) -> tuple[Cell, ...]:
    kind = {"": "", "range": " (range)"}.get(level := display.level(estimate), f" ({level})")
    interval = (display.bounds(estimate) or display.ABSENT) + kind
    count = f"{estimate.n:,}" if estimate.n is not None else display.ABSENT
    return (Cell(_label(id)), Cell(display.value(estimate)), Cell(interval), Cell(count),
            Cell(estimate.origin, why=display.method(estimate)))  # fmt: skip


def absent_words(absent: Sequence[tuple[str, str]]) -> str:
    """ "not measured: hold p50, hold p99 (no admission policy held requests back); …"; "" where all was measured."""
    alike: dict[str, list[str]] = {}
    for label, why in absent:
        alike.setdefault(why, []).append(label)
    listed = "; ".join(f"{', '.join(dict.fromkeys(labels))} ({why})" for why, labels in alike.items())
    return f"not measured: {listed}" if listed else ""


def absent_line(absent: Sequence[tuple[str, str]], rank: int) -> Brief:
    """The same, without the reasons where a first screen has no room for them."""
    brief = absent_words([(label, "--all says why") for label, _ in absent])
    return Brief(Line(absent_words(absent), "dim"), Line(brief, "dim"), rank)
