"""Blocks on a measured side and its twin: where the two part, part by part."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.comparison.twin import LEVEL, PartOfTwin, Twin
from twinlens.record.estimate import Estimate
from twinlens.reporting.display import ABSENT, factor, factor_bounds, join_names
from twinlens.reporting.document.block import Block, Cell, Line, Notes, Table
from twinlens.units import show

NAMES = {part: part for part in ("arrival", "queue", "prefill", "decode")} | {"tail": "tail (E2E p95)"}


def twin_words(found: Twin) -> str:
    """ "A twin: all of its 5 parts lie inside the band.", or which lie outside."""
    judged = [each for each in found.parts if each.inside is not None]
    if not judged:
        return "A twin that cannot be judged: no part has an interval on both sides."
    if found.is_inside:
        return f"A twin: {'all' if len(judged) > 1 else 'the one'} of its {len(judged)} parts inside band and noise."
    outside = join_names([f"{NAMES[each.part]} ({factor(each.ratio)})" for each in judged if not each.inside])
    return f"A twin that parts in {outside}; {len(judged) - len(found.outside)} of {len(judged)} parts lie inside."


def twin_blocks(found: Twin) -> Iterator[Block]:
    """A table of all parts."""
    heads = ("", "measured", "simulated", "ratio", "interval", "")
    rows = tuple(_row(each) for each in found.parts)
    caption = "Parts of a request, by the rows of both sides, in the order in which it meets them."
    yield Table(caption, heads, rows, ("left", "right", "right", "right", "left", "left"))
    yield Notes()
    yield Line(f"ratio: simulated over measured, with the band of one and the noise of the other; all five intervals "
               f"together hold at {LEVEL:.0%}.", "dim", 4)  # fmt: skip


def _row(part: PartOfTwin) -> tuple[Cell, ...]:
    inside = Cell("–") if part.inside is None else Cell("inside", "good") if part.inside else Cell("outside", "doubt")
    if part.ratio.value is None:
        ratio = Cell(ABSENT, why=f"{NAMES[part.part]}: {part.ratio.reason}")
        return (Cell(NAMES[part.part]), _side(part.measured), _side(part.simulated), ratio, Cell(""), inside)
    return (Cell(NAMES[part.part]), _side(part.measured), _side(part.simulated), Cell(factor(part.ratio)),
            Cell(factor_bounds(part.ratio)), inside)  # fmt: skip


def _side(figure: Estimate) -> Cell:
    return Cell(ABSENT if figure.value is None else show(figure.value, figure.unit))


def farthest(found: Twin) -> PartOfTwin | None:
    """The part whose ratio is farthest from 1."""
    known = [each for each in found.parts if each.ratio.value]
    return max(known, key=lambda each: abs((each.ratio.value or 1.0) - 1), default=None)
