"""The report of served runs: validity first, loads apart, searches as they went, and nothing foreign unescaped."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.cells import cell_len

from report_material import Pair, inference_run, relabelled, whole_text
from served_material import CALIBRATION, SLO, capacity_per_s, served_run
from twinlens.record.beside import SearchRecord, SearchResult, Tried, write_search
from twinlens.record.client import Calibration
from twinlens.record.codec import decode
from twinlens.record.finding import in_words
from twinlens.record.store import read_run, update_run
from twinlens.reporting import display
from twinlens.reporting.chart.figure import Figure, log_marks
from twinlens.reporting.chart.tail import _survival
from twinlens.reporting.document.block import Block, Line, Table, filled
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.report.page import render
from twinlens.reporting.report.served import calibration, charts_of, checks
from twinlens.reporting.run.grid import parts_of, points_table
from twinlens.reporting.search import search_document, search_interval
from twinlens.reporting.text.fitted import plain
from twinlens.reporting.text.sentence import sentences
from twinlens.reporting.view import view
from twinlens.reporting.wording.finding import verdict_word
from twinlens.spec.slo import Search, Slo
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.run_summary import summarise

HOSTILE = '<script>alert("x")</script>[bold]\x1b[2J'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """Open loops of two precisions below and beyond capacity, one with a late client, and two closed loops."""
    out = Path(tmp_path_factory.mktemp("served"))
    pairs = [served_run(out, rate, regime, seconds=60) for regime in ("fp32", "bf16") for rate in (6, 10, 32)]
    pairs.append(served_run(out, 18, seconds=60, late_s=0.03))
    return pairs + [served_run(out, 0, seconds=60, concurrency=c) for c in (2, 16)]


@pytest.fixture(scope="module")
def drawn(served: list[Pair]) -> tuple[Figure, ...]:
    return _charts(served, checked=True)[0]


def _charts(pairs: list[Pair], *, checked: bool = False) -> tuple[tuple[Figure, ...], tuple[Figure, ...]]:
    (lens,) = view(pairs).lenses
    return charts_of(lens, lens.entries, "served0", checked=checked)


def _checks(pairs: list[Pair]) -> tuple[Block, ...]:
    return filled(checks(view(pairs).lenses[0].entries))


@pytest.fixture(scope="module")
def page(served: list[Pair]) -> str:
    return render(view([*served, inference_run(served[0][0].folder.parent, "fp32", rows=40)]))


def record(folder: Path, verdicts: str = "ppfpi", **more: object) -> SearchRecord:
    words = {"p": "pass", "f": "fail", "i": "inconclusive"}
    values = (4.0, 8.0, 16.0, 11.3, 13.5)
    tried = tuple(
        Tried(f"run{n}", value, words[verdict], "flat", in_words("TTFT ≤ 0.5 s: 99.5%"), 63.0)  # type: ignore[arg-type]
        for n, (value, verdict) in enumerate(zip(values, verdicts, strict=False))
    )
    found = SearchResult({"precision": "bf16"}, tried, 11.3, 16.0, "budget", in_words("the budget of points is spent"))
    return SearchRecord(folder, Search(start=4.0), Slo.model_validate(SLO), (replace(found, **more),))  # type: ignore[arg-type]


def test_the_material_is_what_it_claims(served: list[Pair]) -> None:
    labels = [summary.verdict.label for _, summary in served]
    assert capacity_per_s("fp32") < 18 < capacity_per_s("bf16") < 32
    assert [label == "overload" for label in labels] == [False, False, True] * 2 + [False] * 3
    assert labels[6] == "invalid"


def test_a_terminal_table_fits_eighty_columns_and_names_first_what_is_not_ranked(served: list[Pair]) -> None:
    text = whole_text(view(served).groups("inference"))
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    open_loop, closed = text.split("served by concurrency (closed loop)")
    said = " ".join(closed.split())
    assert re.search(rf"✗ [^✗]*32/s[^✗]* not valid: {verdict_word('overload')}", said)
    assert "Requests were sent late" in said
    assert not re.search(r"✗ [^✗]* in flight[^✗]* not valid", said)
    rows = [line for line in open_loop.splitlines() if re.match("[✓~✗] (fp32|bf16) ", line)]
    assert {row[0] for row in rows if row.split()[2] == "32"} == {"✗"}
    assert {row[0] for row in rows if row.split()[1:3] == ["bf16", "10"]} <= {"✓", "~"}


def test_a_terminal_table_has_tokens_p90_the_whole_latency_and_failures(served: list[Pair]) -> None:
    groups = view(served).groups("inference")
    text = whole_text(groups)
    below = (
        text.partition("Throughput, latency of the whole answer, and failures")[2]
        .partition("closed loop")[0]
        .splitlines()
    )
    heads = " ".join(" ".join(below[:4]).split())
    assert [heads.count(each) for each in ("tokens/s", "p90", "p50", "p99", "failed")] == [1, 3, 1, 1, 1]
    for group in groups:
        if group.point.get("rate_per_s") is not None:
            shown = display.bare(group.metrics["output_tokens_per_s"])
            assert any(shown in line.split() for line in below), f"{shown} output tokens/s"


def test_one_reason_is_told_once_however_many_points_share_it(served: list[Pair]) -> None:
    text = " ".join(whole_text(view(served).groups("inference")).split())
    open_loop = text.split("closed loop")[0]
    assert open_loop.count("no interval: p99 needs at least 368 independent values") <= 1
    assert open_loop.count("TTFT p99: not measured: p99 needs at least 368 values") <= 1


def test_one_point_is_one_point(served: list[Pair]) -> None:
    assert "How the point went" in render(view(served[:1]))
    assert "How the 2 points went" in render(view(served[:2]))


def test_open_and_closed_loops_share_no_table_and_no_chart(served: list[Pair], drawn: tuple[Figure, ...]) -> None:
    tables = [points_table(part) for part in parts_of(view(served).groups("inference"))]
    assert [table.heads[1] for table in tables] == ["rate\n/s", "in\nflight"]
    for figure in drawn:
        assert not ("open loop" in figure.svg and "closed loop" in figure.svg), figure.id
        if figure.id.split("-")[1] == "rate":
            assert "in flight" not in figure.svg
    ids = {figure.id.removeprefix("served0-") for figure in drawn}
    kinds = {f"{load}-{kind}" for load in ("rate", "concurrency") for kind in ("ttft", "tpot", "pareto")}
    assert ids == kinds | {"goodput", "tail0", "tail1"}


def test_what_stands_against_points_comes_before_every_latency_and_the_checks_after_their_table(page: str) -> None:
    first = page.index("Small · served at a rate")
    served_part = page[first:]
    believed = served_part.index("Can these numbers be believed?")
    assert served_part.index("TTFT p50") < believed < served_part.index("80,000 tokens/s")
    assert believed < served_part.index("<svg"), "charts are drawn of what may be believed"
    assert page.index("points not valid, overload") < first


def test_every_point_has_its_client_its_load_and_the_figures_behind_them(served: list[Pair]) -> None:
    said, table, *_ = _checks(served)
    assert isinstance(said, Line)
    assert isinstance(table, Table)
    found = {name.text: (client.text, load.text, name.tone) for name, client, load, *_ in table.rows}
    assert found["bf16 · 18/s"] == ("at its limit", "not judged", "dim")
    assert found["fp32 · 32/s"] == ("good", "overload", "dim")
    assert found["bf16 · 16 in flight"][0] == "good"
    assert said.text.startswith("Before 9 of 9 runs the client was calibrated")
    assert said.text.count("120 µs") == 1
    assert table.heads[3:6] == ("sent late p99", "read late p99", "client load")


def test_a_column_of_the_checks_in_which_no_point_has_a_figure_is_a_clause(tmp_path: Path) -> None:
    few = [served_run(tmp_path, 0.5, seconds=4)]
    _, table, absent = _checks(few)
    assert isinstance(table, Table)
    assert isinstance(absent, Line)
    assert len(table.heads) > 3
    assert "sent late p99" not in table.heads
    assert "sent late p99" in absent.text
    assert absent.text[1:] in unescape(render(view(few)))


def test_a_client_without_a_certificate_is_said_to_have_none(tmp_path: Path) -> None:
    pairs = [served_run(tmp_path, 8, seconds=20, calibration=None)]
    assert "was not calibrated" in calibration(view(pairs).lenses[0].entries)


def test_hollow_points_are_named_and_in_no_line(drawn: tuple[Figure, ...]) -> None:
    ttft = next(figure for figure in drawn if figure.id.endswith("rate-ttft"))
    assert "bf16 at 32: overload" in ttft.caption
    assert "bf16 at 18: invalid" in ttft.caption
    assert ">overload<" in ttft.svg
    assert "SLO 500 ms" in ttft.svg
    far = "up to fp32 · 10/s and bf16 · 10/s among the 2 of 4 points that have a p99."
    assert ttft.title == f"p99 TTFT stays within 0.5 s {far}"


def test_a_chart_says_how_many_of_its_points_have_a_p99(tmp_path: Path) -> None:
    """It said "up to 6/s among the points measured" where a p99 was there at one of two."""
    pairs = [served_run(tmp_path, 4, seconds=30), served_run(tmp_path, 8, seconds=90)]
    titles = [_ttft_title([_ranked(pair) for pair in chosen]) for chosen in (pairs, pairs[:1], pairs[1:])]
    assert titles[0] == "p99 TTFT stays within 0.5 s up to bf16 · 8/s among the 1 of 2 points that have a p99."
    assert titles[1] == "Too few requests for a p99 TTFT at any valid point."
    assert titles[2].endswith("among the points measured.")


def _ranked(pair: Pair) -> Pair:
    return relabelled(pair, "flat", True)


def _ttft_title(pairs: list[Pair]) -> str:
    return next(figure.title for figure in _charts(pairs)[0] if figure.id.endswith("rate-ttft"))


def test_a_point_that_is_not_ranked_is_on_no_front(drawn: tuple[Figure, ...]) -> None:
    pareto = next(figure for figure in drawn if figure.id.endswith("rate-pareto"))
    assert "of 4 open-loop points" in pareto.title


def test_the_timeline_shows_the_servers_own_queue_where_it_was_read(served: list[Pair], tmp_path: Path) -> None:
    _, (seen,) = _charts(served[:1])
    assert "waiting (server)" in seen.svg
    assert "KV cache in use" in seen.svg
    _, (blind,) = _charts([served_run(tmp_path, 8, seconds=20, server=False)])
    assert "waiting (server)" not in blind.svg
    assert "was not read" in blind.caption


def test_ids_of_two_charts_never_meet(page: str) -> None:
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert ElementTree.fromstring(svg).get("role") == "img"


def test_every_metric_that_the_page_names_is_defined_in_it(page: str) -> None:
    wanted = set(re.findall(r'href="#metric-([a-z0-9_]+)"', page))
    assert {"client_lag_s_p99", "slo_attainment", "ttft_s_p99", "requests_per_s"} <= wanted <= set(METRICS)
    assert all(f'id="metric-{name}"' in page for name in wanted)


def test_engine_level_runs_and_served_ones_stand_apart(page: str) -> None:
    assert re.search(r"<h3>demo-34m · [^<]*\w: AMD EPYC 9654 96-Core Processor, 2 processors", page)
    assert re.search(r"<h3>Small · served at a rate \(open loop\) · [^<]*\w: http://127.0.0.1:8000/v1", page)
    assert "served at a rate (open loop)" in page.lower()


def test_the_sentence_says_how_far_each_precision_went_and_what_came_next(served: list[Pair]) -> None:
    _, said, _ = sentences((), view(served).groups("inference"))
    assert "fp32 at 10 requests/s has" in said
    assert "32 requests/s is not valid (overload)" in said
    assert "×" not in said  # at a given rate all precisions put out the same tokens: a factor would be about nothing


def test_a_search_is_told_with_its_interval_its_runs_and_its_reason(served: list[Pair]) -> None:
    folder = served[0][0].folder.parent
    written = record(folder)
    text = plain(screen(search_document(written), whole=True))
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "Search · bf16: [11.3, 16) requests/s" in text
    assert "TTFT ≤ 0.5 s and TPOT ≤ 0.03 s for 90% of requests" in " ".join(text.split())
    page = render(view(served, searches=(written,)))
    assert "Search · bf16: [11.3, 16) requests/s" in page
    assert "bf16: the highest within the SLO is in [11.3, 16) requests/s." in page
    assert re.search(r'<td data-head="verdict"[^>]*>inconclusive</td>', page)
    assert "[search]" in page.replace("&#34;", '"')  # the spec that does it again


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(8.0, None, "at least 8 requests/s"), (None, 2.0, "below 2 requests/s"), (None, None, "not known")],
)
def test_an_interval_with_an_open_side_says_so(tmp_path: Path, low: float, high: float, words: str) -> None:
    written = record(tmp_path, low=low, high=high)
    assert search_interval(written.results[0], written.search.unit) == words


def test_hostile_words_of_a_search_or_a_guard_are_text(tmp_path: Path) -> None:
    run, _ = served_run(tmp_path, 8, seconds=20)
    guard = {"id": HOSTILE, "after": HOSTILE, "ruling": "fail", "reason": HOSTILE, "evidence": {}}
    update_run(run.folder, guards=[guard])
    run = read_run(run.folder)
    written = record(tmp_path, reason=in_words(HOSTILE), where={"precision": HOSTILE, HOSTILE: HOSTILE})
    write_search(written)
    page = render(view([(run, summarise(run))], searches=(written,)))
    assert "<script" not in page
    assert "The guard" in page.partition("What it comes to")[0]
    text = plain(screen(search_document(written), whole=True))
    assert "\x1b" not in text
    assert "[bold]" in text


def test_a_run_whose_requests_all_failed_is_reported(tmp_path: Path) -> None:
    page = render(view([served_run(tmp_path, 8, seconds=20, fails=1.0)]))
    assert "Small · served at a rate" in page


def test_a_tail_keeps_its_last_requests_and_counts_failures_in() -> None:
    values = np.r_[np.arange(1.0, 1000.0), np.inf]
    x, share = _survival(values)
    assert x.size < 200
    assert (x[-1], share[-1]) == (999.0, 0.002)  # one of a thousand took longer: it never came
    assert (np.diff(x) > 0).all()
    assert (np.diff(share) < 0).all()


@pytest.mark.parametrize(("low", "high"), [(3.0, 40.0), (0.8, 100_000.0), (0.02, 0.03), (5.0, 6.0)])
def test_marks_of_a_logarithmic_axis_are_few_and_inside(low: float, high: float) -> None:
    marks = log_marks(low, high)
    assert len(marks) <= 7
    assert all(low <= mark <= high for mark in marks)


def test_the_calibration_that_is_shown_is_the_one_on_disk(served: list[Pair]) -> None:
    assert served[0][0].sections.calibration == decode(Calibration, CALIBRATION)
