"""Runs as people look at them: facets, ticks, a run measured meanwhile, notes; in a browser without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_ask_pages import Tab, violations

from report_material import inference_run, training_run
from served_site import site
from twinlens.measurement.summary_file import store_summary
from twinlens.record.store import update_run
from twinlens.system.processes import this_process

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    study = folder / "2026-01-01T000000Z_study"
    study.mkdir()
    (study / "study.json").write_text("{}")
    for run, _ in (training_run(study, rows=60), training_run(study, "bf16", rows=60), inference_run(study, rows=60)):
        store_summary(run)
    (folder / "2026-01-02T000000Z_<img src=x onerror=alert(1)>").mkdir()
    (folder / "2026-01-02T000000Z_<img src=x onerror=alert(1)>" / "run.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def url(place: Path) -> Iterator[str]:
    with site(place) as found:
        yield found


def test_a_facet_narrows_the_list_ticks_are_counted_and_back_goes_back(browser: Any, url: str) -> None:
    tab = Tab(browser, url, "runs")
    tab.until("document.querySelectorAll('#found table').length === 3")
    assert violations(tab) == []
    assert tab.ask("document.querySelector('#compare button').disabled") is True
    tab.page.locator("input[name=run]").nth(0).check()
    tab.page.locator("input[name=run]").nth(1).check()
    tab.until("document.getElementById('ticked').textContent === '2 ticked.'")
    assert tab.ask("document.querySelector('#compare button').disabled") is False
    tab.page.locator("summary", has_text="Precision").click()
    with tab.page.expect_navigation():  # a facet is asked for as it is ticked
        tab.page.locator("input[name=precision][value=bf16]").click()
    assert "precision=bf16" in tab.page.url
    tab.until("document.querySelectorAll('#found tbody tr').length === 1")
    tab.page.go_back()
    tab.until("document.querySelectorAll('#found table').length === 3")
    tab.end()


def test_the_first_page_fills_by_itself_on_a_phone_in_the_dark(browser: Any, url: str) -> None:
    tab = Tab(browser, url, "", 390, "dark")
    tab.until("document.querySelectorAll('.rate').length >= 3")
    assert tab.ask("document.documentElement.scrollWidth") <= 390
    assert violations(tab) == []
    tab.end()


def test_a_run_that_ends_while_it_is_watched_becomes_its_report(browser: Any, url: str, place: Path) -> None:
    made, _ = training_run(place, "fp16", rows=60)
    update_run(made.folder, state="running", ended_utc=None, process=this_process())
    tab = Tab(browser, url, f"runs/{made.folder.name}")
    assert (
        tab.ask("document.querySelector('#going td:nth-last-child(2)').textContent.trim()") == "126"
    )  # 120 steps, 6 evaluations
    update_run(made.folder, state="finished", ended_utc="2026-01-01T000000Z")
    tab.page.wait_for_selector("#panel-training")
    assert violations(tab) == []
    tab.page.fill("#note", "<b>mine</b>")
    with tab.page.expect_navigation():
        tab.page.locator(".noting button").click()
    tab.until("document.querySelector('.note')?.textContent === '<b>mine</b>'")
    shutil.rmtree(made.folder)
    tab.end()
