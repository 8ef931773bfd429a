"""A burn-in as a document: a first screen of 24 lines, and everything else on demand."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import twinlens as tl
from burnin_telemetry import asked, changed, counted, on, telemetry
from twinlens.acceptance.criteria import KINDS, read_criteria
from twinlens.acceptance.judge import judged
from twinlens.acceptance.judgement import BurnInResult
from twinlens.acceptance.window import BurnIn, Window
from twinlens.pages import find
from twinlens.record.codec import encode
from twinlens.reporting.chart.burnin import burnin_charts
from twinlens.reporting.document.html import html
from twinlens.reporting.document.markdown import markdown
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.burnin import burnin_document
from twinlens.reporting.wording.finding import advice_of, with_words

HOURS = 24.0


def result_of(windows: tuple[Window, ...]) -> BurnInResult:
    head = BurnIn(asked(HOURS), read_criteria(), "2026-11-27T20:00:00Z", {"device": "8 × H100"}, version="1")
    return BurnInResult("rack7", head, windows, judged(windows, head.criteria, head.asked))


@pytest.fixture(scope="module")
def faulty() -> BurnInResult:
    windows = telemetry(HOURS, drift=-0.02, window_s=300.0, turn=6)
    windows = changed(windows, on("gpu3", lambda each: counted(each, {"pcie_width": 8})), 0.5, 0.6)
    return result_of(
        changed(windows, on("gpu2", lambda each: replace(each, throttled={}, missing={"throttled": "no"})))
    )


def shown(result: BurnInResult, *, whole: bool = False, width: int = 80) -> str:
    console = Console(width=width, color_system=None, file=StringIO())
    console.print(screen(burnin_document(result), whole=whole))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_first_screen_says_the_verdict_what_decided_and_what_to_do_in_24_lines(faulty: BurnInResult) -> None:
    text = shown(faulty)
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("Reject: send it back, with this folder as the evidence")
    for part in ("the link of gpu3 fell from 16 to 8 lanes", "Reseat the card", "✗  PCIe lanes lost", "gpu2: no"):
        assert part in text


def test_a_sound_burn_in_names_each_criterion_on_its_first_screen() -> None:
    text = shown(result_of(telemetry(HOURS, sigma=0.003, window_s=300.0, turn=6)))
    assert text.startswith("Accept: every criterion is met (17 criteria: 17 met).")
    assert len(text.splitlines()) <= 24
    assert "because" not in text
    assert "No fault in 192 device hours (8 devices): one in 64 device hours" in text


def test_what_nobody_could_judge_says_what_to_do_about_that() -> None:
    text = shown(result_of(telemetry(0.1, window_s=30.0, turn=6, devices=2)))
    assert text.startswith("Insufficient: nothing speaks against it")
    assert "Read the missing counter (rights, driver), run longer" in text
    assert "Exchange" not in text


def test_the_rest_names_stretches_of_windows_and_how_each_criterion_was_judged(faulty: BurnInResult) -> None:
    text = shown(faulty, whole=True, width=120)
    assert "145 to 172" in text
    assert "Each device" in text
    assert "generalised least squares over" in text


def test_a_page_and_markdown_hold_all_of_it(faulty: BurnInResult) -> None:
    document = burnin_document(faulty)
    for text in (html(document), markdown(document)):
        assert "he link of gpu3 fell from 16 to 8 lanes" in text
        assert "8 × H100" in text
    assert html(document).count("<svg") >= 4


def test_the_charts_are_rate_clock_temperature_and_errors_with_marked_windows(faulty: BurnInResult) -> None:
    drawn = burnin_charts(faulty.windows, faulty.judgement)
    assert [each.id for each in drawn] == ["burnin-rate", "burnin-clock", "burnin-temperature", "burnin-errors"]
    assert all("Shaded: windows that a criterion marks." in each.caption for each in drawn)
    assert burnin_charts((), faulty.judgement) == []


def test_every_ruling_has_a_sentence_of_its_own_in_json(faulty: BurnInResult) -> None:
    plain = with_words(encode(faulty))
    texts = [each["why"]["text"] for each in plain["judgement"]["rulings"]]
    assert not [text for text in texts if text.startswith("A check found")]
    assert "windows" not in plain["judgement"]
    assert plain["windows"] == len(faulty.windows)


@pytest.mark.parametrize("what", sorted(KINDS))
def test_each_criterion_has_a_page_and_says_what_to_do(what: str) -> None:
    page = find(f"burnin-{what}")
    assert page.kind == "findings"
    rulings = result_of(telemetry(1.0, devices=1, window_s=300.0)).judgement.rulings
    assert advice_of(next(each.why for each in rulings if each.criterion.what == what))


@pytest.mark.parametrize("verdict", ["accept", "accept with notes", "quarantine", "reject", "insufficient"])
def test_each_verdict_has_a_page(verdict: str) -> None:
    assert find(verdict).kind == "labels"


def test_a_pack_of_a_burn_in_shows_its_verdict() -> None:
    pack = Path(__file__).parents[2] / "docs" / "results" / "burn-in.zip"
    assert tl.show(pack).startswith("Insufficient")
