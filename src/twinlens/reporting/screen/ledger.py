"""The ledger on one screen: each step with what it changed, what it came to, and its ratio to the step before."""

from __future__ import annotations

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.comparison.ledger import Ledger
from twinlens.reporting import display
from twinlens.reporting.ledger import LEGEND, cells_of, heads_of, in_all_words, missing_words, remarks_of
from twinlens.reporting.screen.left_out import left_out
from twinlens.reporting.text.fitted import Fitted, FittedTable, shortest
from twinlens.reporting.text.footnote import hanging

_MOST = 6
_LEGEND = f"{LEGEND} --json: every figure."


def ledger_screen(ledger: Ledger) -> RenderableType:
    """At most 24 lines at 80 columns for up to eight steps."""
    return Fitted(lambda width: shortest((_screen(ledger, most) for most in range(_MOST, -1, -1)), width))


def _screen(ledger: Ledger, most: int) -> RenderableType:
    group = ledger.steps[0].side.group
    count = len(ledger.steps) - 1
    title = f"{group.lens.capitalize()} · {group.model} · {count} step{'s' * (count > 1)} from the baseline"
    rows = tuple(tuple(map(Text, cells_of(ledger, step))) for step in ledger.steps)
    heads = heads_of(ledger)
    remarks = remarks_of(ledger)
    left = left_out(len(remarks) - most, "finding", "--json")
    return Stack(
        hanging("", in_all_words(ledger), "bold"),
        hanging("", display.clean(title, 160), ""),
        Text(f"one workload at one load ({ledger.workload})", style="dim"),
        FittedTable(heads, ("left", "left", *["right"] * (len(heads) - 2)), rows, gap=1).table(),
        *(hanging("", words, "dim") for words in missing_words(ledger)),
        *(hanging("! ", words, "yellow") for words in remarks[:most]),
        *left,
        hanging("", _LEGEND, "dim"),
    )
