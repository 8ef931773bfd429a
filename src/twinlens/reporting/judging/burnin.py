"""Document of a burn-in: the verdict and what decided it, each criterion, and rate, clock, temperature and errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from twinlens.acceptance.counts import by_device
from twinlens.acceptance.criteria import COUNTERS
from twinlens.acceptance.judgement import BurnInResult, Judgement, Ruling
from twinlens.acceptance.window import Window
from twinlens.pages import find, section
from twinlens.record.estimate import Estimate
from twinlens.reporting.display import ABSENT, bare_bounds, clean, value
from twinlens.reporting.document.block import (
    DETAIL,
    Block,
    Cell,
    Document,
    Drawing,
    Line,
    More,
    Notes,
    Section,
    Table,
    Tone,
    cells,
    row,
)
from twinlens.reporting.wording.burnin import (
    criterion_words,
    decided_words,
    extent_words,
    limit_words,
    mark,
    span_words,
    value_words,
    verdict_words,
)
from twinlens.reporting.wording.finding import advice_of, clause_of, sentence_of
from twinlens.units import HOUR_S, digits

if TYPE_CHECKING:  # charts are heavy
    from twinlens.reporting.chart.figure import Figure as Chart

_ORDER = ("not met", "insufficient", "met with a note", "met", "not applicable")
_TONES: dict[str, Tone] = {"not met": "bad", "insufficient": "doubt", "met with a note": "doubt", "met": "good"}
_MORE = "--all: each workload, device and marked window; explain burnin; --json: numbers"
_MOST_DECIDED, _MOST_CRITERIA, _MOST_MARKED = 3, 8, 60


def burnin_document(result: BurnInResult) -> Document:
    """A burn-in, whole or as far as it went."""
    subject = f"{clean(' and '.join(result.head.asked.workloads), 60)} · {clean(result.folder, 80)}"
    return Document.of("Burn-in", subject, _blocks(result), "--all", extent_words(result))


def _blocks(result: BurnInResult) -> Iterator[Block]:
    judgement = result.judgement
    yield Line(verdict_words(judgement), is_lead=True)
    told = decided_words(judgement.rulings, judgement.decided)
    yield row("because", told, apart=True, short=told[:_MOST_DECIDED])
    yield row("also", _besides(judgement), rank=4, apart=True, first=2)
    yield row("then", _advice(result), rank=3, apart=True, first=2)
    yield Line(f"{extent_words(result)}.", "dim", rank=6)
    if result.stopped:
        yield row("stopped", [clean(result.stopped, 200)], "doubt", rank=2)
    yield _criteria(judgement.rulings)
    yield Notes(folded=True, rank=6)
    yield row("not seen", [sentence_of(each) for each in judgement.unseen], "dim", rank=5, apart=True, first=2)
    yield Drawing(lambda: _charts(result), rank=DETAIL)
    yield Section("Each workload", (_workloads(result),))
    yield Section("Each device", (_devices(result.windows),))
    if judgement.marks:
        yield Section("Windows that are marked", (_marked(result),))
    yield Section("How each criterion was judged", (_methods(judgement.rulings),))
    yield Section("The machine", (_machine(result),))
    yield More(_MORE, rank=7)


def _besides(judgement: Judgement) -> list[str]:
    """What else is not simply met, the worst first."""
    others = [each for each in _worst_first(judgement.rulings) if each.criterion.what not in judgement.decided]
    return [clause_of(each.why) for each in others if each.standing not in ("met", "not applicable")]


def _worst_first(rulings: Sequence[Ruling]) -> list[Ruling]:
    return sorted(rulings, key=lambda each: _ORDER.index(each.standing))


def _advice(result: BurnInResult) -> list[str]:
    """What to do before it is repeated: for each criterion that is not met, once for those that could not be judged."""
    names = {*result.judgement.decided}
    those = [each for each in result.judgement.rulings if each.criterion.what in names]
    told = [advice_of(each.why) for each in those if each.standing == "not met"]
    if result.judgement.verdict == "insufficient":
        told.append(section(find("insufficient"), "What to do"))
    return list(dict.fromkeys(filter(None, told)))


def _criteria(rulings: Sequence[Ruling]) -> Table:
    heads = ("", "criterion", "limit", "found", "interval", "where")
    rows = tuple(_criterion(each) for each in rulings)
    judged = [each for each in _worst_first(rulings) if each.standing != "not applicable"]
    short = tuple(_criterion(each) for each in judged[:_MOST_CRITERIA])
    sides = ("left", "left", "right", "right", "right", "left")
    return Table("Criteria.", heads, rows, sides, short=short, shrinks=True, drop=(4, 5), more="… and {} more: --all")


def _criterion(ruling: Ruling) -> tuple[Cell, ...]:
    of = [*ruling.devices, *ruling.workloads] if ruling.standing not in ("met", "not applicable") else []
    where = clean(", ".join(of[:2]), 24) + (f" +{len(of) - 2}" if len(of) > 2 else "")
    tone = _TONES.get(ruling.standing, "dim")
    shown = value_words(ruling.value)
    return (
        Cell(mark(ruling), tone), Cell(criterion_words(ruling.criterion)), Cell(limit_words(ruling.criterion), "dim"),
        Cell(shown, why=clause_of(ruling.why) if shown == ABSENT else ""), Cell(span_words(ruling.value), "dim"),
        Cell(where),
    )  # fmt: skip


def _workloads(result: BurnInResult) -> Table:
    names = {"rate": "rate /s", "retention": "retention", "drift": "drift in 10 h", "over_last": "over the last"}
    told = [each for each in names if any(each in figures for figures in result.judgement.per_workload.values())]
    heads = ("workload", *(head for each in told for head in (names[each], "")))
    rows = []
    for name, figures in result.judgement.per_workload.items():
        shown = [text for key in told for text in (_bare(figures.get(key)), bare_bounds(figures.get(key)))]
        rows.append(cells((clean(name, 40), *shown)))
    return Table("Sustained rate, retention and drift.", heads, tuple(rows), ("left", *("right",) * (len(heads) - 1)))


def _bare(figure: Estimate | None) -> str:
    if figure is None or figure.value is None:
        return ABSENT
    return digits(figure.value) if figure.unit == "per s" else value(figure)


def _devices(windows: Sequence[Window]) -> Table:
    heads = (
        "device",
        "highest °C",
        "mean MHz",
        "mean W",
        "throttled %",
        *(name.replace("_", "\n", 1) for name in COUNTERS),
    )
    rows = []
    for device, readings in by_device(windows).items():
        each = [reading for _, reading in readings]
        heat = [one.temperature_c for one in each if one.temperature_c is not None]
        slowed = _mean(100 * sum(one.throttled.values()) for one in each if "throttled" not in one.missing)
        last = {name: _last(readings, name) for name in COUNTERS}
        means = (
            _mean(one.clock_hz / 1e6 if one.clock_hz else None for one in each),
            _mean(one.power_w for one in each),
        )
        shown = (f"{max(heat):.0f}" if heat else ABSENT, *means, slowed)
        rows.append(cells((clean(device, 24), *shown, *(last[name] for name in COUNTERS))))
    sides = ("left", *("right",) * (len(heads) - 1))
    return Table("Devices: counters as last read.", heads, tuple(rows), sides)


def _mean(values: Iterator[float | None]) -> str:
    known = [each for each in values if each is not None]
    return f"{sum(known) / len(known):,.0f}" if known else ABSENT


def _last(readings: Sequence[tuple[Window, object]], name: str) -> str:
    read = [getattr(each, "counters", {}).get(name) for _, each in readings]
    known = [each for each in read if each is not None]
    return f"{known[-1]:,}" if known else ABSENT


def _marked(result: BurnInResult) -> Table:
    """Stretches of windows that the same criteria speak against, the first of them."""
    stretches: list[list[Window]] = []
    marks = result.judgement.marks
    for window in result.windows:
        if names := marks.get(window.number):
            last = stretches[-1][-1].number if stretches else 0
            if last == window.number - 1 and marks[last] == names:
                stretches[-1].append(window)
            else:
                stretches.append([window])
    rows = [_stretch(each, ", ".join(marks[each[0].number])) for each in stretches[:_MOST_MARKED]]
    heads = ("windows", "hours", "UTC", "workloads", "against them")
    more = len(stretches) - len(rows)
    caption = "Windows that are marked." + (f" {more:,} more stretches are in --json." if more > 0 else "")
    return Table(caption, heads, tuple(rows), ("left",) * 5, remarks=True)


def _stretch(windows: Sequence[Window], names: str) -> tuple[Cell, ...]:
    first, last = windows[0], windows[-1]
    numbers = f"{first.number:,}" + (f" to {last.number:,}" if last != first else "")
    hours = f"{first.begin_s / HOUR_S:.2f} to {(last.begin_s + last.seconds) / HOUR_S:.2f}"
    workloads = ", ".join(sorted({each.workload for each in windows}))
    return cells((numbers, hours, clean(first.at_utc, 32), clean(workloads, 40), names))


def _methods(rulings: Sequence[Ruling]) -> Table:
    rows = tuple(
        cells((each.criterion.what, each.standing, f"n = {each.value.n}" if each.value.n is not None else ABSENT,
               clean(each.value.method, 120) if each.value.value is not None else clause_of(each.why)))
        for each in rulings
    )  # fmt: skip
    return Table("Criteria, how they stand and by which method.", ("criterion", "stands", "n", "how"), rows,
                 ("left", "left", "right", "left"), remarks=True)  # fmt: skip


def _machine(result: BurnInResult) -> Table:
    facts = {"begun (UTC)": result.head.begun_utc, "twinlens": result.head.version, **result.head.machine}
    rows = tuple(
        cells((clean(name, 40), clean(str(each), 120))) for name, each in facts.items() if each not in ("", None)
    )
    return Table("Facts of the machine at the start.", ("fact", "value"), rows, ("left", "left"), remarks=True)


def _charts(result: BurnInResult) -> Sequence[Chart]:
    from twinlens.reporting.chart.burnin import burnin_charts

    return burnin_charts(result.windows, result.judgement)
