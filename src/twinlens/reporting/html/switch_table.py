"""The table of switches for a template: rows of text, and what was found on each switch."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.comparison.switches import SwitchRow
from twinlens.reporting.tables import SWITCH_LEGEND, switch_heads, switch_lines, switch_remarks


def switch_table(rows: Sequence[SwitchRow]) -> dict[str, object]:
    """Each switch against the default, as the template wants a table."""
    return {
        "head": "Each switch against the default", "legend": SWITCH_LEGEND, "heads": switch_heads(),
        "rows": switch_lines(rows), "about": (), "findings": switch_remarks(rows), "against": (),
        "align": "num",
    }  # fmt: skip
