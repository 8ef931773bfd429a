"""What stands under a number is called what it is: an interval over runs or within one, or a range of two runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from report_material import estimate
from served_material import served_run
from twinlens import units
from twinlens.record.estimate import Estimate
from twinlens.reporting.chart.latency import bars
from twinlens.reporting.run.cell import share_bounds
from twinlens.reporting.run.grid import parts_of, points_table
from twinlens.reporting.view import view

OF_TWO = Estimate(0.99, units.RATIO, "by hand", "measured", low=0.98, high=1.0, level=None, runs=2)
OF_THREE = replace(OF_TWO, level=0.95, runs=3)


def test_bars_of_a_chart_are_intervals_ranges_or_both() -> None:
    assert bars([OF_THREE, estimate(1.0, units.RATIO)]) == "pale bars are 95% intervals"
    assert "ranges of two runs, for which no confidence is claimed" in bars([OF_TWO])
    assert "95%" not in bars([OF_TWO])
    assert bars([OF_TWO, OF_THREE]) == "pale bars are 95% intervals, or ranges where a point has two runs"


def test_a_range_of_shares_is_in_brackets() -> None:
    assert (share_bounds(OF_TWO), share_bounds(OF_THREE)) == ("(98.0–100)", "98.0–100")
    assert share_bounds(replace(OF_TWO, low=1.0)) == "", "two runs that agree are no range"


@pytest.mark.parametrize(
    ("repeats", "caption"), [(1, "No number has an interval"), (2, "range of its two runs"), (3, "over runs")]
)
def test_the_caption_of_a_served_table_says_which(tmp_path: Path, repeats: int, caption: str) -> None:
    """Every served table said "95% interval", those of two runs too."""
    pairs = [served_run(tmp_path, 4.0, repeat=repeat) for repeat in range(repeats)]
    found = points_table(*parts_of(view(pairs).groups("inference")))
    assert caption in found.caption
    assert ("95%" in found.caption) == (repeats == 3)
    marks = {cell.bounds.rpartition(" ")[2] for row in found.rows for cell in row if "–" in cell.bounds}
    assert marks <= {1: {"(run)"}, 2: {"(range)"}, 3: {""}}[repeats] or (
        repeats == 3 and not marks & {"(run)", "(range)"}
    )
