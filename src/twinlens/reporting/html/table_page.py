"""A table of evidence as one self-contained HTML file: training beside inference, or one model in two runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlens.comparison.lenses import LensRow
from twinlens.comparison.runtime_share import RuntimeShares
from twinlens.comparison.switches import SwitchRow
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.comparison import verdict_words
from twinlens.reporting.html.render import environment, write_page
from twinlens.reporting.html.switch_table import switch_table
from twinlens.reporting.tables import (
    LENS_HEADS,
    LENS_LEGEND,
    LENSES,
    SHARE_HEADS,
    SPLIT,
    change_names,
    lens_cell,
    ran_on,
    share_cells,
)
from twinlens.reporting.wording.finding import sentence_of
from twinlens.version import __version__

Fits = Sequence[tuple[str, Finding]]


def table_page(rows: Sequence[LensRow] = (), fits: Fits = (), shares: Sequence[RuntimeShares] = ()) -> str:
    """The page as text; everything foreign is escaped by the template. `fits`: a point's name, and what it is good for;
    `shares`: of the other table, instead of `rows`."""
    return environment().get_template("table.html.j2").render(
        version=__version__,
        title="One model in two runtimes" if shares else "Training beside inference",
        answer=SPLIT[:1].upper() + SPLIT[1:] if shares else LENSES,
        ran=None if shares else ran_on(rows),
        tables=[_split(each) for each in shares] if shares else [_lenses(rows)],
        fits=[(display.clean(name, 80), sentence_of(each)) for name, each in fits],
    )  # fmt: skip


def write_switches(rows: Sequence[SwitchRow], path: Path) -> Path:
    """Write the page of switches. Raises BadInput (TL207) where the disk refuses it."""
    page = environment().get_template("table.html.j2").render(
        version=__version__, title="Switches of a server", answer="One change at a time", ran=None,
        tables=[switch_table(rows)], fits=[],
    )  # fmt: skip
    return write_page(page, path)


def write_table(rows: Sequence[LensRow], fits: Fits, shares: Sequence[RuntimeShares], path: Path) -> Path:
    """Write the page. Raises BadInput (TL207) where the disk refuses it."""
    return write_page(table_page(rows, fits, shares), path)


def _lenses(rows: Sequence[LensRow]) -> dict[str, object]:
    cells = [
        (display.clean(name, 80), lens_cell(row, "training"), lens_cell(row, "inference"))
        for name, row in zip(change_names(rows), rows, strict=True)
    ]
    against = [
        (
            f"{display.clean(name, 80)}, {pair.a.lens}",
            verdict_words(pair),
            [sentence_of(each) for each in pair.findings],
        )
        for name, row in zip(change_names(rows), rows, strict=True)
        for pair in (row.training, row.inference)
        if pair is not None
    ]
    return {
        "head": "Changes", "legend": LENS_LEGEND, "heads": LENS_HEADS, "rows": cells, "about": (), "findings": (),
        "against": against, "align": "left",
    }  # fmt: skip


def _split(each: RuntimeShares) -> dict[str, object]:
    group = each.served.group
    return {
        "head": f"{display.clean(group.model, 60)} · {display.clean(group.point['precision'], 20)}",
        "legend": "Each latency of the engine in this process beside the server's, at the same number in flight.",
        "heads": ("latency", *SHARE_HEADS[1:]),
        "rows": [share_cells(share) for share in each.shares],
        "about": (("engine", display.clean(each.engine.name, 80)), ("served", display.clean(each.served.name, 80))),
        "findings": [sentence_of(finding) for finding in each.findings], "against": (), "align": "num",
    }  # fmt: skip
