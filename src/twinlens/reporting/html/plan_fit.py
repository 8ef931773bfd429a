"""The page of `plan fit`: parts of memory as bars, devices that do, and what flips the answer."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.planning.fit.answer import Fit
from twinlens.planning.fit.placement import Placement
from twinlens.record.finding import Finding
from twinlens.reporting.chart.figure import Figure as Chart
from twinlens.reporting.chart.plan_bars import plan_bars
from twinlens.reporting.html.plan_page import PlanPage, PlanTable
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan import FITS, NAMES, fit_words, placed_cells, placed_words, subject_words
from twinlens.units import digits


def fit_page(answer: Fit, notes: Sequence[Finding] = ()) -> PlanPage:
    """What the page of one answer shows."""
    asked, subject = answer.asked, subject_words(answer.plan)
    words = fit_words(answer) if asked else f"{subject}: the fewest of each device that hold it."
    most = tuple(f"At most {each.value:,} {each.unit}." for each in answer.most if asked and asked.fits)
    shown = asked or next(iter(answer.others), None)
    chart = _bars(shown) if shown else None
    return PlanPage(
        "fit",
        subject,
        (words, *most),
        () if shown is None else (shown.needed, shown.usable, *answer.most),
        () if chart is None else (chart,),
        _tables(answer.others),
        tuple(f"would do: {clause_of(each)}" for each in answer.changes),
        (*notes, *answer.assumptions()),
    )


def _bars(placed: Placement) -> Chart | None:
    parts = [(NAMES.get(each.name, each.name), each) for each in (*placed.parts, placed.needed)]
    room = float(placed.usable.value or 0)
    title = f"{FITS[placed.fits]} on {placed_words(placed)}: each device has {digits(room / 1e9, 4)} GB usable."
    caption = "Memory on the fullest device, by part. Dashed: usable memory. Line: sums of parts are off by up to 3 %."
    return plan_bars("fit", parts, "memory of one device (GB)", title, caption, divisor=1e9, limit=room)


def _tables(others: Sequence[Placement]) -> tuple[PlanTable, ...]:
    rows = tuple(placed_cells(each) for each in others)
    heads = ("device", "count", "GB needed each", "GB usable each", "free")
    return (PlanTable("The fewest of each device that hold it.", heads, rows),) if rows else ()
