"""Documents: one set of blocks, shown the same on a terminal, a page and in Markdown."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest
from benchmarks.published import published
from hypothesis import given
from hypothesis import strategies as st

import twinlens as tl
from twinlens import plan
from twinlens.api.diagnose import diagnosed_points
from twinlens.api.documented import Documented
from twinlens.executors.in_process.ceiling import Collectives, Timing
from twinlens.measurement.machine.probe import CeilingRow, Probe, summed_up
from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.record.store import find_runs
from twinlens.reporting.display import escaped
from twinlens.reporting.document.block import (
    DETAIL,
    Bar,
    Bars,
    Beside,
    Block,
    Box,
    Cell,
    Document,
    Fold,
    Line,
    Row,
    Section,
    Share,
    Shares,
    Table,
    Term,
    Terms,
    Title,
)
from twinlens.reporting.document.html import html
from twinlens.reporting.document.markdown import markdown
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.document.text import texts
from twinlens.reporting.judging.check import check_document
from twinlens.reporting.judging.diagnosis import diagnoses_document
from twinlens.reporting.judging.probe import probe_document
from twinlens.reporting.report.page import report_document
from twinlens.reporting.run.points import runs_document
from twinlens.reporting.text.fitted import LINES, plain
from twinlens.reporting.view import view
from twinlens.stats.run_summary import summarise
from twinlens.theory.figure import Figure
from twinlens.units import FLOP_PER_S

RESULTS = published()
EXAMPLES = Path(tl.__file__).parent / "examples"
WORDS = st.text(alphabet="abcdefghij <>&*_#@|`", min_size=1, max_size=30).map(str.strip).filter(bool)
RANKS = st.sampled_from([0, 0, 1, 2, 5, DETAIL])


def _found(name: str) -> Documented:
    return {
        "fit": lambda: plan.fit("70B", device="H100", users=16, context="8K"),
        "fits": lambda: plan.fit("70B", users=16),
        "training": lambda: plan.fit("8B", train="lora", device="H100"),
        "capacity": lambda: plan.capacity("8B", device="H100", rate=4, prompt="1K"),
        "step": lambda: plan.capacity("8B", device="H100", devices=8, train="full", tokens="1B"),
        "check": lambda: plan.check("70B", device="H100", devices=4, users=16),
        "checkpoint": lambda: plan.checkpoint(mtbf="8h", save="40s", restart="5min"),
        "choose": lambda: plan.choose("70B", users=16, context="8K"),
        "cost": lambda: plan.cost("4 requests/s", rent="3 USD/h", users="1000", uses="10"),
        "method": lambda: plan.method("8B", device="H100", corpus="20M"),
        "model": lambda: plan.model(["8B", "qwen3-8b"], device="H100", users=16),
        "roi": lambda: plan.roi(device="H100", energy="0.1 USD/kWh"),
    }[name]()


NAMES = (
    "fit",
    "fits",
    "training",
    "capacity",
    "step",
    "check",
    "checkpoint",
    "choose",
    "cost",
    "method",
    "model",
    "roi",
)


def _flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", NAMES)
def test_screen_page_and_markdown_of_a_plan_hold_the_same(name: str) -> None:
    found = _found(name)
    assert (found.to_html(), found.to_markdown()) == (html(found.document()), markdown(found.document()))
    hold_the_same(found.document())


def hold_the_same(document: Document) -> None:
    """Screen, page and Markdown hold each text of a document."""
    whole = _flat(plain(screen(document, whole=True), 2000))
    page, notes = _flat(unescape(html(document))), _flat(markdown(document))
    for text in filter(None, map(_flat, texts(document))):
        assert text in whole
        assert text in page or text[:1].upper() + text[1:] in page
        assert _flat(escaped(text)) in notes


@pytest.mark.parametrize("place", ["2026-11-20-epyc-2core", "2026-11-21-served-epyc-2core", "one"])
def test_screen_page_and_markdown_of_a_diagnosis_hold_the_same(place: str) -> None:
    runs = tl.read(RESULTS / ("2026-11-20-epyc-2core" if place == "one" else place))
    hold_the_same(diagnoses_document(diagnosed_points(runs[:1] if place == "one" else runs)))


@pytest.mark.parametrize("example", ["batching", "demo-training", "collectives", "vllm-switches", "search"])
def test_screen_page_and_markdown_of_a_check_hold_the_same(example: str) -> None:
    hold_the_same(check_document(tl.check(tl.load(EXAMPLES / f"{example}.toml"), refuse=False)))


def test_screen_page_and_markdown_of_a_probe_hold_the_same() -> None:
    facts = {"accelerator.form_factor": observed("processor", "by hand"), "host.cpu.cores": observed(2, "by hand")}
    rate = Estimate(1e12, FLOP_PER_S, "by hand", "measured")
    rows = [
        CeilingRow("matrix", "fp32", "", 1, rate),
        CeilingRow("read", "", "", 2, Estimate(None, FLOP_PER_S, "by hand", "measured", reason="no such format")),
    ]
    timings = [Timing("all-reduce", size, (1e-5, 2e-5, 3e-5)) for size in (1024, 2048, 4096)]
    exchanges = summed_up(Collectives("gloo", 2, True, tuple(timings), {"send": "by hand"}))
    hold_the_same(probe_document(Probe(ExecutorRecord(facts), tuple(rows), None, ("a note",), exchanges)))


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("folder", sorted(RESULTS.glob("*/")), ids=lambda each: each.name)
def test_screen_page_and_markdown_of_runs_and_points_hold_the_same_figures(folder: Path, alone: bool) -> None:
    runs = find_runs(folder)
    document = runs_document([(run, summarise(run)) for run in (runs[:1] if alone else runs)])
    whole = _flat(plain(screen(document, whole=True), 3000))
    page, notes = _flat(unescape(html(document))), _flat(markdown(document))
    every = [*map(_flat, texts(document))]
    assert sum(any(map(str.isdigit, text)) for text in every) > 20
    for text in every:
        assert text in whole
        assert text in page or text[:1].upper() + text[1:] in page
        assert _flat(escaped(text)) in notes
    assert len(plain(screen(document)).splitlines()) <= LINES


@pytest.mark.parametrize("name", ["2026-11-20-epyc-2core", "2026-11-21-served-epyc-2core"])
def test_screen_page_and_markdown_of_a_report_hold_the_same(name: str) -> None:
    hold_the_same(report_document(view([(run, summarise(run)) for run in find_runs(RESULTS / name)])))


@pytest.mark.parametrize("name", NAMES)
def test_a_first_screen_of_a_plan_says_nothing_that_the_whole_does_not(name: str) -> None:
    document = _found(name).document()
    first = [line.strip() for line in plain(screen(document), 400).splitlines()]
    whole = plain(screen(document, whole=True), 2000)
    for block in document.blocks:
        if isinstance(block, Table) and block.short is not None:
            assert set(block.short) <= set(block.rows)
    assert first[0]
    assert len(first) < len(whole.splitlines()) + 2


@given(st.lists(st.builds(Line, WORDS, rank=RANKS), min_size=1, max_size=40))
def test_a_first_screen_leaves_out_the_largest_rank_first_and_never_rank_0(lines: list[Line]) -> None:
    document = Document("t", "s", tuple(lines))
    shown = [line for line in plain(screen(document), 80).splitlines() if line]
    up_to = [sum(each.rank <= rank for each in lines) for rank in range(DETAIL)]
    assert len(shown) == max((many for many in up_to if many <= LINES), default=up_to[0])


def _table(rows: list[tuple[str, str]], rank: int) -> Table:
    return Table("caption", ("a", "b"), tuple((Cell(one), Cell(two)) for one, two in rows), rank=rank)


BLOCKS: st.SearchStrategy[Block] = st.one_of(
    st.builds(Title, WORDS, rank=RANKS, level=st.integers(2, 4)),
    st.builds(lambda text, said: Section(text, (Line(said),)), WORDS, WORDS),
    st.builds(lambda text, said: Beside((Box(text, (Line(said),)), Box(said, (Line(text),)))), WORDS, WORDS),
    st.builds(lambda name, text: Terms((Term(((name, name, ""),), text),)), WORDS, WORDS),
    st.builds(Line, WORDS, rank=RANKS),
    st.builds(Row, WORDS, st.lists(WORDS, min_size=1, max_size=7).map(tuple), rank=RANKS, apart=st.booleans()),
    st.builds(Fold, WORDS, st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3).map(tuple)),
    st.builds(
        lambda what, names: Shares(
            "time", what, tuple(Share(name, 1 / len(names), "1 %", "1 %", None) for name in names)
        ),
        WORDS,
        st.lists(WORDS, min_size=1, max_size=4),
    ),
    st.builds(_table, st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=15), RANKS),
)


@given(st.lists(BLOCKS, min_size=1, max_size=6))
def test_whatever_the_blocks_are_each_text_is_in_every_rendering(blocks: list[Block]) -> None:
    hold_the_same(Document("title", "subject", tuple(blocks)))


def test_bars_say_on_a_page_what_they_say_on_a_terminal() -> None:
    bars = Bars((Bar("weights", Figure("a", 2e9, "bytes", "", ()), "2.000 GB"),), "t", "c", is_drawn=True)
    document = Document("t", "s", (bars,))
    for text in (plain(screen(document), 80), html(document), markdown(document)):
        assert "weights" in text
        assert "2.000 GB" in text


def test_an_empty_block_is_not_there() -> None:
    document = Document.of("t", "s", iter([Line(""), Row("mark", ()), Table("c", ("a",), ()), Line("said")]))
    assert document.blocks == (Line("said"),)


def test_what_a_narrow_terminal_has_no_room_for_is_dropped_in_order_and_stays_on_the_page() -> None:
    table = Table("c", ("name", "wide", "b"), ((Cell("n"), Cell("w" * 70), Cell("b" * 20)),), drop=(1,))
    document = Document("t", "s", (table,))
    assert "w" * 70 not in plain(screen(document), 80)
    assert "b" * 20 in plain(screen(document), 80)
    assert "w" * 70 in html(document)


def test_a_model_that_is_beaten_is_told_by_what_in_json() -> None:
    found = plan.model(["8B", "qwen3-8b"], device="H100", users=16)
    assert found.to_json()["beaten"] == dict(found.answer.beaten)
    assert found.answer.beaten


def test_a_long_table_shows_the_rows_of_a_first_screen_on_its_page_and_folds_the_whole() -> None:
    rows = tuple((Cell(f"row {number}"), Cell("1")) for number in range(20))
    page = html(Document("t", "s", (Table("c", ("a", "b"), rows, short=rows[:2]),)))
    shown, _, folded = page.partition("<details")
    assert [f">row {number}</th>" in shown for number in (0, 1, 2)] == [True, True, False]
    assert all(f">row {number}</th>" in folded for number in range(20))
