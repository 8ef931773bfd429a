"""The table of switches: the default against each change, in a terminal, on a page and as data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from report_material import inference_run
from twinlens.api.table import table
from twinlens.comparison.lenses import SHOWN, SwitchRow, switch_rows
from twinlens.comparison.side import Side, rates_of
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.document.html import write
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.point_name import point_names
from twinlens.reporting.tables import switch_cells, switch_remarks, switches_document
from twinlens.reporting.text.fitted import plain
from twinlens.reporting.view import in_order
from twinlens.stats.summary.group import group
from twinlens.units import RATIO


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[SwitchRow, ...]:
    """The default at 16 sequences, one without prefix cache, one at 2 sequences: three repeats each."""
    asked = [{"max_sequences": 16}, {"max_sequences": 16, "prefix_caching": False}, {"max_sequences": 2}]
    folder, runs, summaries = tmp_path_factory.mktemp("switched"), {}, []
    for number, options in enumerate(asked):
        for repeat in range(3):
            run, summary = inference_run(folder / f"{number}-{repeat}", repeat=repeat)
            seen = Finding("prefix-cache-met", "notes", "", {"hits": 0.5, "shared": 0.6})
            found = (
                (seen,) if number == 0 else (Finding("switch-not-seen", "notes", "prefix_caching", {"asked": False}),)
            )
            summary = replace(summary, run=f"{number}-{repeat}", identity=f"{number}", options=options, findings=found)
            runs[id(summary)] = run
            summaries.append(summary)
    groups = in_order(group(summaries))
    sides = [
        Side(name, each, tuple(runs[id(one)] for one in each.runs))
        for name, each in zip(point_names(groups), groups, strict=True)
    ]
    return switch_rows(sides, rates_of(sides))


def test_each_change_is_against_the_point_that_most_others_resemble(rows: tuple[SwitchRow, ...]) -> None:
    assert [dict(row.change) for row in rows] == [{"max_sequences": 2}, {"prefix_caching": False}]
    assert {row.comparison.a.group.switches == {} for row in rows} == {True}
    assert {row.comparison.a.name for row in rows} == {rows[0].comparison.a.name}


def test_the_table_says_ratio_and_interval_and_what_was_found(rows: tuple[SwitchRow, ...], tmp_path: Path) -> None:
    cells = switch_cells(rows[0])
    assert cells[0] == "max sequences 2"
    assert cells[3].startswith("1.00× (")
    assert cells[3].endswith("=?"), "the same rows on both sides"
    text = plain(screen(switches_document(rows)))
    assert "prefix caching off" in text
    assert max(map(len, text.splitlines())) <= 80
    remarks = switch_remarks(rows)
    assert [remark.partition(":")[0] for remark in remarks] == ["max sequences 2", "prefix caching off", "default"]
    assert "came from the prefix cache" in remarks[-1], "of three repeats the first"
    page = write(switches_document(rows), tmp_path / "table.html").read_text()
    assert "max sequences 2" in page
    assert "<script" not in page


def with_ratios(row: SwitchRow, low: float | None) -> SwitchRow:
    """The same with a ratio of 1.02 in all four metrics; `low` None: without an interval."""
    high = None if low is None else 1.06
    ratio = Estimate(1.02, RATIO, "by hand", "derived", low=low, high=high, level=None if low is None else 0.95, n=3)
    effects = tuple(replace(row.comparison.effects[0], metric=metric, ratio=ratio, apart=False) for metric in SHOWN)
    return replace(row, comparison=replace(row.comparison, effects=effects))


@pytest.mark.parametrize("low", [None, 0.98])
@pytest.mark.parametrize("width", [70, 80, 100, 140])
def test_no_ratio_and_no_interval_of_a_switch_is_cut(
    rows: tuple[SwitchRow, ...], low: float | None, width: int
) -> None:
    change = {"chunked_prefill_tokens": 2048, "prefix_caching": False, "ngram_tokens": 4}
    chosen = [replace(with_ratios(row, low), change=change) for row in rows]
    text = plain(screen(switches_document(chosen)), width)
    assert "…" not in text.partition("Ratios to the default")[0]
    assert text.count("no interval" if low is None else "0.98–1.06×") == 8
    assert max(map(len, text.splitlines())) <= width


def test_runs_without_switches_have_no_such_table(tmp_path: Path) -> None:
    run, _ = inference_run(tmp_path / "one")
    with pytest.raises(BadInput, match="no two points here differ in a switch") as caught:
        table("switches", run)
    assert caught.value.code == "TL225"
