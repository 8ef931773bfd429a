"""Document of histories: what changed, the values as a row of blocks with a mark under each change, every value."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from twinlens.comparison.history import History
from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.document.block import (
    DETAIL,
    Block,
    Document,
    Drawing,
    Letters,
    Line,
    Table,
    Title,
    Tone,
    cells,
    row,
)
from twinlens.reporting.wording.comparison import label_of
from twinlens.reporting.wording.finding import sentence_of
from twinlens.reporting.wording.history import change_words, changed_at, date_of, head_words, quiet_words

if TYPE_CHECKING:
    from twinlens.reporting.chart.figure import Figure as Chart

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDEST = 52
_MOST_LEFT_OUT = 3
_TONES: dict[bool | None, Tone] = {True: "bad", False: "good", None: "doubt"}


def history_document(found: Sequence[History]) -> Document:
    blocks = (block for place, each in enumerate(found, start=1) for block in _blocks(each, place))
    return Document.of("History", f"{len(found)} histor{'ies' if len(found) > 1 else 'y'}.", blocks, "--all")


def _blocks(history: History, place: int) -> Iterator[Block]:
    yield Title(head_words(history))
    yield Line(_subject(history))
    for change in history.changes:
        yield row("!" if change.is_worse else "·", [change_words(history, change)], _TONES[change.is_worse])
    yield Letters(tuple(_drawn(history)))
    yield Drawing(partial(_chart, history, f"history-{place}"))
    yield Line(quiet_words(history) or "", "dim")
    yield _table(history)
    left = [f"{display.clean(name, 60)} is left out. {sentence_of(why)}" for name, why in history.left_out]
    yield row("✗", left, "dim", apart=True, first=_MOST_LEFT_OUT)


def _chart(history: History, anchor: str) -> Sequence[Chart]:
    from twinlens.reporting.chart.history import history_chart  # charts are heavy

    return (history_chart(history, anchor),)


def _table(history: History) -> Table:
    changed = bool(history.quiet or history.changes)
    heads = ("when", "measurement", label_of(history.metric), *(["changed before it"] if changed else []))
    rows = []
    for at, entry in enumerate(history.entries):
        value = display.value(Estimate(entry.value, history.unit, "an entry", "derived"))
        edits = [changed_at(history, at)] if changed else []
        rows.append(cells((date_of(history, at), display.clean(entry.side.name, 60), value, *edits)))
    sides = ("left", "left", "right", "left")[: len(heads)]
    return Table(f"{len(rows)} measurements.", heads, tuple(rows), sides, DETAIL, remarks=changed)


def _subject(history: History) -> str:
    """ "Training · demo-34m · bf16 · AMD EPYC · 2026-10-01 to 2026-11-22"."""
    group = history.entries[-1].side.group
    machine = [group.machine.name] if group.machine else []
    point = [
        f"{key.replace('_', ' ')} {value}"
        for key, value in group.point.items()
        if value is not None and key != "precision"
    ]
    parts = [group.lens.capitalize(), group.model, str(group.point["precision"]), *point, *machine]
    times = f"{date_of(history, 0)} to {date_of(history, len(history.entries) - 1)}"
    return display.clean(" · ".join([*parts, times]), 200)


def _drawn(history: History) -> list[str]:
    """The values as blocks between the least and the most, and a ^ under the first of each new level."""
    values = np.asarray([each.value for each in history.entries])
    columns = min(values.size, _WIDEST)
    edges = (np.arange(columns + 1) * values.size) // columns
    means = np.asarray([values[start:stop].mean() for start, stop in itertools.pairwise(edges)])
    low, high = float(values.min()), float(values.max())
    heights = np.zeros(columns) if high == low else (means - low) / (high - low)
    blocks = "".join(_BLOCKS[min(int(height * len(_BLOCKS)), len(_BLOCKS) - 1)] for height in heights)
    least, most = (display.value(Estimate(each, history.unit, "an entry", "derived")) for each in (low, high))
    marks = [" "] * columns
    for change in history.changes:
        marks[int(np.searchsorted(edges, change.shift.at, side="right")) - 1] = "^"
    line = f"{least} {blocks} {most}"
    return [line, " " * (len(least) + 1) + "".join(marks).rstrip()] if history.changes else [line]
