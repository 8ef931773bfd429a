from __future__ import annotations

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import twinlens as tl
from report_material import Pair, image_run, inference_run, study, training_run
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.finding import in_words
from twinlens.reporting.document.block import Bar, Cell, Document, Table
from twinlens.reporting.document.html import _length, html
from twinlens.reporting.report.page import render, write
from twinlens.reporting.view import view
from twinlens.spec.load import load

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page(demo: list[Pair]) -> Page:
    return Page(render(view(demo)))


def test_the_page_fetches_nothing_and_runs_nothing(page: Page) -> None:
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "iframe", "object", "embed", "img", "foreignobject", "base", "form"}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("href", "src", "xlink:href"):
            target = attributes.get(name)
            assert target is None or target.startswith("#") or (tag, target) == ("link", "data:,")


def test_the_two_lenses_are_two_sections_and_no_score_joins_them(page: Page) -> None:
    headings = [attributes.get("id") for tag, attributes in page.tags if tag == "h2"]
    assert headings == [
        "panel-training", "panel-inference", "validity", "training", "inference", "executor", "method", "definitions",
    ]  # fmt: skip
    assert "score" not in page.text.lower()
    assert "overall" not in page.text.lower()


def test_what_is_not_valid_says_so_before_its_number(page: Page) -> None:
    panel, _, rest = page.text.partition("What stands against it")
    assert "int4-weight not valid 73.3 tokens/s" in panel
    assert "int4-weight is not valid: slowdown in 1 of 3 runs" in rest.partition("Skip")[0]
    assert "✗ int4-weight" in rest


def test_energy_and_fidelity_stand_beside_speed(page: Page) -> None:
    assert "Not measured: " in page.text
    assert "energy (no readable energy counter on this host" in page.text
    for word in ("fail", "reference", "top-1 98.5%"):
        assert word in page.text
    assert "Quality: top-1 agreement 0.885 is below 0.95" in page.text


def test_every_metric_links_to_its_definition(page: Page) -> None:
    ids = {attributes["id"] for _, attributes in page.tags if attributes.get("id")}
    links = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    assert {link for link in links if link} <= {f"#{id}" for id in ids}
    assert "#metric-training_tokens_per_s" in links
    assert "#metric-mbu" in links


def test_ids_are_unique_and_tables_have_captions(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    names = [tag for tag, _ in page.tags]
    assert names.count("table") == names.count("caption") > 0
    assert names.count("svg") == names.count("figure") == names.count("figcaption") == 19


def test_the_executor_is_told_with_marks_and_what_it_lacks(page: Page) -> None:
    assert "partially-characterised; it lacks" in page.text
    assert "other processes of this host are not visible from a container" in page.text
    assert "storage-only" in page.text
    assert "not observed" in page.text


def test_the_spec_in_the_page_measures_the_same_again(page: Page, demo: list[Pair], tmp_path: Path) -> None:
    blocks = [word for word in page.words if word.startswith("schema = 1")]
    assert len(blocks) == 2
    for block, lens in zip(blocks, ("training", "inference"), strict=True):
        path = tmp_path / f"{lens}.toml"
        path.write_text(block, encoding="utf-8")
        asked = {run.spec.fingerprint() for run, _ in demo if run.lens == lens}
        assert {spec.fingerprint() for spec in load(path).runs()} == asked


def test_hostile_names_are_text_everywhere(tmp_path: Path) -> None:
    pairs = []
    for run, summary in (training_run(tmp_path, notes=(HOSTILE,)), inference_run(tmp_path, error=HOSTILE)):
        point = summary.point | {"precision": HOSTILE}
        verdict = replace(summary.verdict, reason=in_words(HOSTILE), label=HOSTILE)
        pairs.append((run, replace(summary, model=HOSTILE, point=point, verdict=verdict, executor=HOSTILE)))
    text = render(view(pairs, title=HOSTILE))
    page = Page(text)
    assert not {tag for tag, _ in page.tags} & {"script", "img"}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert "<script>alert" not in text
    assert HOSTILE[:30] in page.text


def test_unfinished_and_empty_runs_are_reported_and_explained(tmp_path: Path) -> None:
    pairs = [
        training_run(tmp_path, rows=0, state="failed", facts=False, error="the device ran out of memory"),
        inference_run(tmp_path, "fp32", rows=20, state="running"),
        image_run(tmp_path, rows=20, state="interrupted"),
    ]
    text = Page(render(view(pairs))).text
    assert "unfinished (failed)" in text
    assert "the device ran out of memory" in text
    assert "unfinished (running)" in text
    assert "recorded no executor" in text


def test_twelve_runs_are_rendered_without_hanging(tmp_path: Path) -> None:
    report = view(study(tmp_path, repeats=2))
    assert len(report.material) == 12
    began = time.process_time()
    render(report)
    assert time.process_time() - began < 120  # 2 s alone


def test_a_report_that_cannot_be_written_says_where(demo: list[Pair], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written to"):
        write(view(demo[:1]), tmp_path / "file" / "report.html")
    assert write(view(demo[:1]), tmp_path / "new" / "report.html").read_text().startswith("<!doctype html>")


def test_a_page_folds_what_is_looked_up_and_has_no_column_of_dashes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sample-report.html").read_text(encoding="utf-8")
    assert len(page) < 1_500_000
    head, _, _ = page.partition('<details class="fold"><summary><h2 id="definitions">')
    assert head != page, "definitions are folded"
    binds = head.partition('id="binds-training"')[2].partition('<div class="whole"')
    assert binds[1], "a bar of the time"
    assert '<details class=" printed"><summary>' in binds[0], "several diagnoses are folded, one line each"
    tables = re.findall(r"<table.*?</table>", page, re.DOTALL)
    assert any(">factor</th>" in table for table in tables)
    for table in tables:
        if ">factor</th>" in table:
            assert re.search(r"\d×", table), "a factor column has a factor"


def test_the_sample_report_is_what_its_runs_give_today(tmp_path: Path) -> None:
    """`make shown` writes it again. Charts are compared by their words, since letters may lie elsewhere."""
    docs = Path(__file__).parents[2] / "docs"
    runs = tl.read(docs / "results" / "2026-11-22-neighbour-epyc-2core" / "evidence.zip")
    pages = [docs / "sample-report.html", tl.report(runs, to=tmp_path / "report.html")]
    ours, today = (re.sub(r"<[^>]*>|\s+", " ", page.read_text(encoding="utf-8")) for page in pages)
    assert ours == today


def test_the_factor_of_points_that_took_turns_is_the_ratio_of_the_headline() -> None:
    """Not that of their rates, which are provisional in training and not valid in inference."""
    page = (Path(__file__).parents[2] / "docs" / "sample-report.html").read_text(encoding="utf-8")
    answer, _, rest = page.partition('id="validity"')
    told = re.findall(r"(?:Training|Inference): bf16 sustains ([\d.]+×) \(([^)]+)\)", answer)
    assert len(told) == 2
    for ratio, interval in told:
        assert re.search(rf'data-head="factor"[^>]*>{ratio}\s*<small>{interval}, paired</small>', rest)
        assert re.search(
            rf"bf16 sustains {ratio} \({interval}\) the (output )?tokens/s of fp32, in paired slices", rest
        )


def test_cells_carry_the_heads_of_their_columns_where_a_phone_shows_cards() -> None:
    heads = ("point", "tokens/s", "p50 <\ns", "loss")
    page = html(Document("t", "s", (Table("c", heads, (tuple(map(Cell, "a123")),)),)))
    assert re.findall(r'<td data-head="([^"]*)"', page) == ["tokens/s", "p50 &lt; s", "loss"]
    assert '<table class="cards">' in page
    assert '<table class="cards">' not in html(Document("t", "s", (Table("c", heads[:3], (tuple(map(Cell, "a12")),)),)))


def test_why_a_number_is_absent_stands_below_its_table_and_a_link_leads_there() -> None:
    rows = tuple((Cell(name), Cell("–", why=why), Cell("2")) for name, why in (("a", "no <counter>"), ("b", "too few")))
    page = Page(
        html(Document("t", "s", (Table("c", ("point", "energy", "n"), rows), Table("c", ("", "x", "n"), rows))))
    )
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    ids = [attributes["id"] for tag, attributes in page.tags if tag == "li"]
    assert [f"#{id}" for id in ids] == links == ["#why-1-1", "#why-1-2", "#why-2-1", "#why-2-2"]
    assert "No <counter> Too few" in page.text
    assert not [name for _, attributes in page.tags for name in attributes if name == "title"], "no tooltip holds words"


def test_no_published_report_has_a_path_of_the_machine_that_measured() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sample-report.html").read_text(encoding="utf-8")
    assert not re.search(r"[\s>\"](/tmp|/home|/root|/work)/", page)
    assert "TORCHINDUCTOR_CACHE_DIR a path" in page


def test_a_bar_draws_no_interval_where_an_end_of_it_is_not_known() -> None:
    def drawn(estimate: Estimate) -> tuple[str, str]:
        length = _length(Bar("a", estimate, "10"), 10.0, 20.0)
        return length.low, length.span

    known = Estimate(10.0, "tokens/s", "by hand", "derived", low=8.0, high=12.0, n=3)
    assert drawn(known) == ("40.00", "20.00")
    for open_end in (replace(known, high=None), replace(known, low=None, high=None)):
        assert drawn(open_end) == ("", "")
