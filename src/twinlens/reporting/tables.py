"""Documents of tables: training beside inference, switches of a server, and the share of kernels in a served token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from twinlens.comparison.effect import Effect
from twinlens.comparison.lenses import SHOWN, LensRow, RuntimeShares, Share, SwitchRow
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.comparison import first_effect, verdict_words
from twinlens.reporting.document.block import DETAIL, Block, Document, Line, Table, Title, cells, row
from twinlens.reporting.load_kind import place_words, switch_words
from twinlens.reporting.wording.comparison import label_of
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.precision import PRECISIONS, Lens
from twinlens.units import SECONDS, show

_MARKS = {"comparable": "✓", "comparable with qualifiers": "!", "not comparable": "✗", "category error": "✗"}
LENSES = "Training and inference are two answers: they are in two columns, and no number is of both."
LENS_HEADS = ("change", "training", "inference")
SWITCH_LEGEND = (
    "Ratios to the default at the same load: medians of TTFT and TPOT, output tokens/s, peak memory; =?: not told "
    "apart; ~: provisional; ✗: not valid; –: no ratio"
)
IN_LINE, STACKED = "{ratio} ({bounds}){told}", "{ratio}{told}\n{bounds}"
"""Forms of a ratio with its interval: beside it, or below it where the line is too short."""
_OF_SWITCHES = ("switch-differs", "switch-not-seen", "speculation-flattered", "prefix-cache-met")
LENS_LEGEND = "✓ comparable, ! with qualifiers, ✗ not comparable; =?: the two cannot be told apart; –: no ratio"
SPLIT = "share: engine / served, the kernels' part; rest: served − engine, which is scheduler, HTTP and tokenising"
SHARE_HEADS = ("", "engine", "served", "share", "interval", "rest", "interval")


_MOST = 6
"""Points of which a first screen says what they are good for."""


def lenses_document(rows: Sequence[LensRow], fits: Sequence[tuple[str, Finding]]) -> Document:
    """A line for each change with its ratio in each lens, then what each point is good for. `fits`: name, finding."""
    return Document.of("Training beside inference", ran_on(rows), _lenses(rows, fits), "--all")


def _lenses(rows: Sequence[LensRow], fits: Sequence[tuple[str, Finding]]) -> Iterator[Block]:
    names = [display.clean(name, 60) for name in change_names(rows)]
    yield Line(LENSES, is_lead=True)
    yield Line(ran_on(rows))
    shown = tuple(cells((name, lens_cell(each, "training"), lens_cell(each, "inference")))
                  for name, each in zip(names, rows, strict=True))  # fmt: skip
    yield Table("Changes.", LENS_HEADS, shown, ("left",) * 3)
    yield Line(LENS_LEGEND, "dim")
    said = [f"{display.clean(name, 60)}: {sentence_of(each)}" for name, each in fits]
    yield row("good for", said, apart=True, first=_MOST)
    for name, each in zip(names, rows, strict=True):
        for pair in (each.training, each.inference):
            if pair is not None:
                against = [sentence_of(one) for one in pair.findings] or ["Nothing stands against it."]
                yield Line(f"{name}, {pair.a.lens}: {verdict_words(pair)}", rank=DETAIL)
                yield row("·", against, apart=True, rank=DETAIL)
    yield row("more", ["compare without --table: what each pair differs in; --json: every number"], "dim")


def switches_document(rows: Sequence[SwitchRow]) -> Document:
    """A line for each switch with its ratios to the default, then what was found on the switches."""
    group = rows[0].comparison.a.group
    title = f"{display.clean(group.model, 40)} · each switch against the default"
    found: list[Block] = [row("!", [remark], "doubt") for remark in switch_remarks(rows)]
    shown = tuple(map(cells, switch_lines(rows)))
    narrow = tuple(map(cells, switch_lines(rows, STACKED)))
    blocks: list[Block] = [
        Line(title, is_lead=True),
        Table(SWITCH_LEGEND, switch_heads(), shown, narrow=narrow),
        Line(SWITCH_LEGEND, "dim"),
        *found,
    ]
    return Document.of("Switches of a server", title, iter(blocks))


def runtimes_document(found: Sequence[RuntimeShares]) -> Document:
    """A line for each latency of each served point, with the engine's share of it and the rest."""
    blocks = chain(chain.from_iterable(map(_runtimes, found)), [Line(SPLIT, "dim")])
    return Document.of("One model in two runtimes", SPLIT, blocks)


def _runtimes(each: RuntimeShares) -> Iterator[Block]:
    group = each.served.group
    yield Title(f"{display.clean(group.model, 40)} · {display.clean(group.point['precision'], 20)}")
    yield row("engine", [display.clean(each.engine.name, 60)])
    yield row("served", [display.clean(each.served.name, 60)])
    caption = "Each latency of the engine in this process beside the server's, at the same number in flight."
    yield Table(caption, SHARE_HEADS, tuple(cells(share_cells(share)) for share in each.shares))
    yield from (row("!", [sentence_of(finding)], "doubt") for finding in each.findings)


def change_names(rows: Sequence[LensRow]) -> list[str]:
    """Each change, with its model where the rows have several."""
    one = len({row.model for row in rows}) == 1
    return [row.change if one else f"{row.model} · {row.change}" for row in rows]


def ran_on(rows: Sequence[LensRow]) -> str:
    """ "demo-34m on EPYC", of all models and machines among the rows."""
    pairs = [pair for row in rows for pair in (row.training, row.inference) if pair is not None]
    groups = [side.group for pair in pairs for side in (pair.a, pair.b)]
    ran = dict.fromkeys(f"{group.model} on {group.machine.name if group.machine else 'unknown'}" for group in groups)
    return display.join_names([display.clean(name, 60) for name in ran], 3)


def lens_cell(row: LensRow, lens: Lens) -> str:
    """The mark of the verdict, the ratio of the first effect and its interval."""
    comparison = row.training if lens == "training" else row.inference
    if comparison is None:
        other = row.inference if lens == "training" else row.training
        precision = other.b.group.point["precision"] if other else ""
        known = PRECISIONS.get(str(precision))
        return "does not exist" if known is not None and lens not in known.lenses else "not measured"
    effect, mark = first_effect(comparison), _MARKS.get(comparison.verdict, "")
    if effect is None or effect.ratio.value is None:
        unranked = any(not side.group.ranked for side in (comparison.a, comparison.b))
        return f"{mark} {display.ABSENT}{' (not valid)' if unranked else ''}"
    told = "" if effect.apart else " =?"
    bounds = display.factor_bounds(effect.ratio) or "no interval"
    return f"{mark} {display.factor(effect.ratio)} ({bounds}){told}"


def switch_heads() -> tuple[str, ...]:
    """The heads of the table of switches."""
    return ("switch", "TTFT", "TPOT", "tokens/s", "memory")


def switch_cells(row: SwitchRow, place: str = "", form: str = IN_LINE) -> tuple[str, ...]:
    """The change in words, and the ratio to the default in each metric, with its interval. `place`: of several loads,
    the row's own."""
    change = " + ".join(map(switch_words, row.change.items()))
    mark = display.doubt_mark(row.comparison.b.group.validity)
    cells = [_switch_cell(row.effects.get(metric), form) for metric in SHOWN]
    return (f"{mark}{change}{f', {place}' if place else ''}", *cells)


def _switch_cell(effect: Effect | None, form: str) -> str:
    if effect is None or effect.ratio.value is None:
        return display.ABSENT
    bounds = display.factor_bounds(effect.ratio)
    told = "" if effect.apart or not bounds else " =?"
    return form.format(ratio=display.factor(effect.ratio), bounds=bounds or "no interval", told=told)


def switch_lines(rows: Sequence[SwitchRow], form: str = IN_LINE) -> list[tuple[str, ...]]:
    """A line for each row, which says its load where there are several."""
    places = [place_words(row.comparison.b.group) for row in rows]
    several = len(set(places)) > 1
    return [switch_cells(row, place if several else "", form) for row, place in zip(rows, places, strict=True)]


def switch_remarks(rows: Sequence[SwitchRow]) -> list[str]:
    """What stands beside the ratios: findings on the switches themselves, each with its point."""
    said = []
    for each in rows:
        change = " + ".join(map(switch_words, each.change.items()))
        runs = each.comparison.b.group.runs
        found = {one.code: one for run in reversed(runs) for one in run.findings if one.code in _OF_SWITCHES}
        said += [f"{change}: {sentence_of(one)}" for one in found.values()]  # of repeats the first
    met = [each for run in rows[0].comparison.a.group.runs for each in run.findings if each.code == "prefix-cache-met"]
    return [*said, *(f"default: {sentence_of(each)}" for each in met[:1])]


def share_cells(share: Share) -> tuple[str, ...]:
    """A latency of both runtimes, the engine's share of it, and the rest, each with its interval."""
    ratio, rest = share.share, share.rest
    bounds = "" if ratio.low is None or ratio.high is None else f"{100 * ratio.low:.0f}–{100 * ratio.high:.0f} %"
    ends = "" if rest.low is None or rest.high is None else f"{show(rest.low, SECONDS)} to {show(rest.high, SECONDS)}"
    told = display.ABSENT if ratio.value is None else f"{100 * ratio.value:.0f} %"
    engine, served = display.value(share.engine), display.value(share.served)
    return label_of(share.metric), engine, served, told, bounds or "–", display.value(rest), ends or "–"
