"""Tables of evidence on one screen: training beside inference, and the share of kernels in a served token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.comparison.lenses import LensRow
from twinlens.comparison.runtime_share import RuntimeShares, Share
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.comparison import first_effect
from twinlens.reporting.screen.left_out import left_out
from twinlens.reporting.text.fitted import FittedTable
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.effect import label_of
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.precision import PRECISIONS, Lens
from twinlens.units import SECONDS, show

_MOST = 6
_MARKS = {"comparable": "✓", "comparable with qualifiers": "!", "not comparable": "✗", "category error": "✗"}
_LENSES = "Training and inference are two answers: they are in two columns, and no number is of both."
_LEGEND = "✓ comparable, ! with qualifiers, ✗ not comparable; =?: the two cannot be told apart; –: no ratio"
_SPLIT = "share: engine / served, the kernels' part; rest: served − engine, which is scheduler, HTTP and tokenising"


def lenses_screen(rows: Sequence[LensRow], fits: Sequence[tuple[str, Finding]], whole: bool = False) -> RenderableType:
    """A line for each change with its ratio in each lens, then what each point is good for. `fits`: name, finding."""
    one = len({row.model for row in rows}) == 1
    names = [row.change if one else f"{row.model} · {row.change}" for row in rows]
    cells = tuple(
        tuple(map(Text, (display.clean(name, 36), _cell(row, "training"), _cell(row, "inference"))))
        for name, row in zip(names, rows, strict=True)
    )
    most = len(fits) if whole else _MOST
    pairs = [pair for row in rows for pair in (row.training, row.inference) if pair is not None]
    groups = [side.group for pair in pairs for side in (pair.a, pair.b)]
    ran = dict.fromkeys(f"{group.model} on {group.machine.name if group.machine else 'unknown'}" for group in groups)
    machines = display.join_names([display.clean(name, 60) for name in ran], 3)
    return Stack(
        hanging("", _LENSES, "bold"),
        hanging("", machines, ""),
        FittedTable(("change", "training", "inference"), ("left", "left", "left"), cells, gap=2).table(),
        hanging("", _LEGEND, "dim"),
        *(hanging(f"{display.clean(name, 30)}: ", sentence_of(each), "") for name, each in fits[:most]),
        *left_out(len(fits) - most, "finding"),
        hanging("more   ", "compare without --table: what each pair differs in; --json: every number", "dim"),
    )


def _cell(row: LensRow, lens: Lens) -> str:
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
        return f"{mark} {display.ABSENT}{' (not ranked)' if unranked else ''}"
    told = "" if effect.apart else " =?"
    bounds = display.factor_bounds(effect.ratio) or "no interval"
    return f"{mark} {display.factor(effect.ratio)} ({bounds}){told}"


def runtimes_screen(found: Sequence[RuntimeShares]) -> RenderableType:
    """A line for each latency of each served point, with the engine's share of it and the rest."""
    return Stack(*_runtimes(found))


def _runtimes(found: Sequence[RuntimeShares]) -> Iterator[RenderableType]:
    for each in found:
        group = each.served.group
        yield hanging("", f"{display.clean(group.model, 40)} · {display.clean(group.point['precision'], 20)}", "bold")
        yield hanging("engine  ", display.clean(each.engine.name, 60), "")
        yield hanging("served  ", display.clean(each.served.name, 60), "")
        rows = tuple(tuple(map(Text, _share(share))) for share in each.shares)
        heads = ("", "engine", "served", "share", "interval", "rest", "interval")
        yield FittedTable(heads, ("left", *["right"] * 6), rows, gap=2).table()
        yield from (hanging("! ", sentence_of(finding), "yellow") for finding in each.findings)
    yield hanging("", _SPLIT, "dim")


def _share(share: Share) -> tuple[str, ...]:
    ratio, rest = share.share, share.rest
    bounds = "" if ratio.low is None or ratio.high is None else f"{100 * ratio.low:.0f}–{100 * ratio.high:.0f} %"
    ends = "" if rest.low is None or rest.high is None else f"{show(rest.low, SECONDS)} to {show(rest.high, SECONDS)}"
    told = display.ABSENT if ratio.value is None else f"{100 * ratio.value:.0f} %"
    engine, served = display.value(share.engine), display.value(share.served)
    return label_of(share.metric), engine, served, told, bounds or "–", display.value(rest), ends or "–"
