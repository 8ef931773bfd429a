"""Tables of evidence as words and cells, for the screen and the page alike: training beside inference, and the share of
kernels in a served token."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.comparison.lenses import LensRow
from twinlens.comparison.runtime_share import Share
from twinlens.reporting import display
from twinlens.reporting.comparison import first_effect
from twinlens.reporting.wording.effect import label_of
from twinlens.spec.precision import PRECISIONS, Lens
from twinlens.units import SECONDS, show

_MARKS = {"comparable": "✓", "comparable with qualifiers": "!", "not comparable": "✗", "category error": "✗"}
LENSES = "Training and inference are two answers: they are in two columns, and no number is of both."
LENS_HEADS = ("change", "training", "inference")
LENS_LEGEND = "✓ comparable, ! with qualifiers, ✗ not comparable; =?: the two cannot be told apart; –: no ratio"
SPLIT = "share: engine / served, the kernels' part; rest: served − engine, which is scheduler, HTTP and tokenising"
SHARE_HEADS = ("", "engine", "served", "share", "interval", "rest", "interval")


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
        return f"{mark} {display.ABSENT}{' (not ranked)' if unranked else ''}"
    told = "" if effect.apart else " =?"
    bounds = display.factor_bounds(effect.ratio) or "no interval"
    return f"{mark} {display.factor(effect.ratio)} ({bounds}){told}"


def share_cells(share: Share) -> tuple[str, ...]:
    """A latency of both runtimes, the engine's share of it, and the rest, each with its interval."""
    ratio, rest = share.share, share.rest
    bounds = "" if ratio.low is None or ratio.high is None else f"{100 * ratio.low:.0f}–{100 * ratio.high:.0f} %"
    ends = "" if rest.low is None or rest.high is None else f"{show(rest.low, SECONDS)} to {show(rest.high, SECONDS)}"
    told = display.ABSENT if ratio.value is None else f"{100 * ratio.value:.0f} %"
    engine, served = display.value(share.engine), display.value(share.served)
    return label_of(share.metric), engine, served, told, bounds or "–", display.value(rest), ends or "–"
