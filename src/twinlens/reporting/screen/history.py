"""Histories on one screen: what changed, then the values as a row of blocks with a mark under each change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.comparison.history import History
from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.screen.left_out import left_out
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.finding import sentence_of
from twinlens.reporting.wording.history import change_words, date_of, head_words, quiet_words

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDEST = 52
_MOST_LEFT_OUT = 3
_STYLES = {True: "red", False: "green", None: "yellow"}


def history_screen(found: Sequence[History], *, whole: bool = False) -> RenderableType:
    """One block for each history. `whole`: every measurement that is left out, and not the first few."""
    blocks = [Stack(*_block(each, whole), *([Text("")] if each is not found[-1] else [])) for each in found]
    return Stack(*blocks)


def _block(history: History, whole: bool) -> Iterator[RenderableType]:
    yield hanging("", head_words(history), "bold")
    yield hanging("", subject_words(history), "")
    for change in history.changes:
        yield hanging("! " if change.is_worse else "  ", change_words(history, change), _STYLES[change.is_worse])
    yield from (Text(line) for line in drawn(history))
    if quiet := quiet_words(history):
        yield hanging("", quiet, "dim")
    shown = history.left_out if whole else history.left_out[:_MOST_LEFT_OUT]
    for name, why in shown:
        yield hanging("✗ ", f"{display.clean(name, 60)} is left out. {sentence_of(why)}", "dim")
    yield from left_out(len(history.left_out) - len(shown), "measurement left out")


def subject_words(history: History) -> str:
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


def drawn(history: History) -> list[str]:
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
