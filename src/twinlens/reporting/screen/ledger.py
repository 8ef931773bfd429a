"""The ledger on one screen: each step with what it changed, what it came to, and its ratio to the step before."""

from __future__ import annotations

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.comparison.ledger import Ledger, Step
from twinlens.reporting import display
from twinlens.reporting.comparison import short_name
from twinlens.reporting.ledger import (
    LEGEND,
    cells_of,
    changed,
    heads_of,
    in_all_words,
    latency_words,
    load_words,
    missing_words,
    remarks_of,
)
from twinlens.reporting.screen.left_out import left_out
from twinlens.reporting.text.fitted import Fitted, FittedTable, shortest
from twinlens.reporting.text.footnote import hanging

_MOST = 6
_LEGEND = f"{LEGEND} --json: every figure."


def ledger_screen(ledger: Ledger) -> RenderableType:
    """At most 24 lines at 80 columns for up to four steps: as many findings as there is room for."""
    return Fitted(lambda width: shortest((_screen(ledger, most) for most in range(_MOST, -1, -1)), width))


def _screen(ledger: Ledger, most: int) -> RenderableType:
    group = ledger.steps[0].side.group
    count = len(ledger.steps) - 1
    title = f"{group.lens.capitalize()} · {group.model} · {count} step{'s' * (count > 1)} from the baseline"
    remarks = remarks_of(ledger)
    return Stack(
        hanging("", in_all_words(ledger), "bold"),
        hanging("", display.clean(title, 160), ""),
        Text(load_words(ledger), style="dim"),
        _table(ledger),
        *(hanging(f"{place}  ", _what(step), "") for place, step in enumerate(ledger.steps)),
        *(hanging("", words, "dim") for words in (*filter(None, [latency_words(ledger)]), *missing_words(ledger))),
        *(hanging("! ", words, "yellow") for words in remarks[:most]),
        *left_out(len(remarks) - most, "finding", "--json"),
        hanging("", _LEGEND, "dim"),
    )


def _table(ledger: Ledger) -> RenderableType:
    """The figures of each step by its number: with names in it the table would not fit, and cells would be cut."""
    heads = ("step", *heads_of(ledger)[2:])
    marks = [display.doubt_mark(step.side.group.validity) or "  " for step in ledger.steps]
    rows = tuple(
        tuple(map(Text, (f"{marks[place]}{place}", *cells_of(ledger, step)[2:])))
        for place, step in enumerate(ledger.steps)
    )
    return FittedTable(heads, ("left", *["right"] * (len(heads) - 1)), rows).table()


def _what(step: Step) -> str:
    """ "bf16 · batch 4: batching"."""
    return f"{short_name(step.side, 60)}: {changed(step)}"
