"""The pages of comparisons and ledgers: forest plot, ranks of both lenses, steps, and no foreign marks."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import published

sys.path.insert(0, str(Path(__file__).parent.parent / "comparison"))

import twinlens as tl
from sides import side
from twinlens.comparison.ledger import Prices, ledger
from twinlens.comparison.ranking import rankings
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.reporting.chart.forest import forest_chart
from twinlens.reporting.chart.ledger_bars import ledger_charts
from twinlens.reporting.comparing.comparison import comparison_document
from twinlens.reporting.comparing.ledger import ledger_document
from twinlens.reporting.comparison import rows_of, says_unit
from twinlens.reporting.document.html import html, write

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
BF16 = "point.precision=bf16"


def served(name: str, rate: float, *asked: str, **parts: Any) -> Side:
    """Three runs at about `rate` requests a second."""
    spread = (0.99, 1.0, 1.01)
    values = {
        "output_tokens_per_s": [8 * rate * each for each in spread],
        "requests_per_s": [rate * each for each in spread],
        "e2e_latency_s_p50": [1 / (rate * each) for each in spread],
        "tpot_s_p50": [0.02 * each for each in spread],
    }
    return side(name, values, asked=asked, **parts)


def trained(name: str, rate: float) -> Side:
    return side(name, {"training_tokens_per_s": [rate, 1.01 * rate, 0.99 * rate], "step_s_p50": [0.5] * 3},
                lens="training")  # fmt: skip


def test_a_forest_has_a_line_for_each_metric_with_a_ratio_and_says_its_noise_floor() -> None:
    comparison = compare(served("a", 10), served("b", 20, BF16))
    found = forest_chart(comparison, "forest")
    assert found is not None
    for label in ("output tokens/s", "latency p50", "TPOT p50"):
        assert label in found.svg
    assert "2 of 3 metrics can be told apart" in found.title
    assert "Grey band: the noise floor" in found.caption


def test_sides_without_a_ratio_have_no_forest_and_the_page_still_stands() -> None:
    comparison = compare(served("a", 10), trained("b", 20))
    assert forest_chart(comparison, "forest") is None
    assert "Category error" in html(comparison_document([comparison]))


def test_ranks_of_both_lenses_stand_side_by_side_in_one_table() -> None:
    folders = [
        [replace(each, folder=name) for each in (served(name, rate), trained(name, 100 * rate))]
        for name, rate in (("first", 10.0), ("second", 20.0), ("third", 40.0))
    ]
    text = html(comparison_document([compare(folders[0][0], folders[1][0])] * 2, (), rankings(folders)))
    head = text[text.index("<caption>Ranks, one lens beside the other") :].partition("</thead>")[0]
    assert "inference output tokens/s" in head
    assert "training tokens/s" in head
    assert "<caption>Ranks" not in html(comparison_document([compare(folders[0][0], folders[1][0])]))


def test_a_ledger_page_has_steps_charts_and_what_was_not_measured(tmp_path: Path) -> None:
    found = ledger([served("a", 10), served("b", 20, BF16), served("c", 40, BF16, "point.batch=4")],
                   prices=Prices(3.6, 1e6))  # fmt: skip
    ids = [one.id for one in ledger_charts(found)]
    assert ids == ["ledger-throughput", "ledger-cost", "ledger-repays"], "latencies are at three throughputs"
    text = write(ledger_document(found), tmp_path / "new" / "ledger.html").read_text(encoding="utf-8")
    assert text.count("<svg") == 3
    assert "All steps together: 4.00×" in text
    assert "Not measured: " in text
    assert "Latency p50 is at each step&#39;s own load (10.0, 20.0, 40.0 requests/s) and not compared" in text


def test_without_prices_a_ledger_has_no_money_and_says_so() -> None:
    found = ledger([served("a", 10), served("b", 20, BF16)])
    assert [one.id for one in ledger_charts(found)] == ["ledger-throughput"]
    assert "Not given: cost (no price was given)" in html(ledger_document(found))


@pytest.mark.parametrize(("label", "unit", "said"), [("output tokens/s", "tokens/s", True), ("step p50", "s", False)])
def test_a_label_says_a_unit_only_as_a_word(label: str, unit: str, said: bool) -> None:
    assert says_unit(label, unit) is said


def test_a_time_has_its_unit_though_its_label_has_that_letter() -> None:
    row = next(row for row in rows_of(compare(trained("a", 100), trained("b", 120))) if row.label == "step p50")
    assert row.cells[0] == "500 ms"


def test_hostile_names_do_not_reach_the_pages_as_marks() -> None:
    a, b = served(HOSTILE, 10), served(f"b{HOSTILE}", 20, BF16, stack={"software.driver.version": HOSTILE})
    folders = [[replace(each, folder=f"{HOSTILE}{place}")] for place, each in enumerate((a, b, served("c", 30)))]
    for text in (
        html(comparison_document([compare(a, b)], [HOSTILE], rankings(folders))),
        html(ledger_document(ledger([a, b], prices=Prices(1.0, 10.0)))),
    ):
        assert "<script>" not in text
        assert "<img" not in text
        assert "alert(2)&gt;" in text


def test_names_of_steps_stand_whole_in_the_charts_of_a_ledger() -> None:
    """Where they are long in two lines: a bar whose name is cut is nobody's."""
    (chart, *_) = ledger_charts(tl.ledger(published() / "2026-11-22-ledger-epyc-2core"))
    assert "…" not in chart.svg
    assert ">0 torch, compiled<" in chart.svg
    assert ">fp32 · batch 1<" in chart.svg
