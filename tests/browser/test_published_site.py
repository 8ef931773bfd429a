"""A static site of packs as people see it: from a disk, in a real browser, with the network cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_report_page import HOSTILE, Opened

import twinlens as tl
from material import for_rows, measured, run_json, training

pytestmark = pytest.mark.browser
PAGES = ("index.html", "training.html", "packs/0/index.html", "packs/0/rows.html", "explain/index.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two packs, of a machine and by people with script for a name."""
    at = tmp_path_factory.mktemp("packs")
    for number in range(2):
        run = measured(tmp_path_factory.mktemp("runs"), training("fake", protocol=for_rows(40)))
        told = run_json(run)
        told["facts"]["executor"]["accelerator.product"]["value"] = HOSTILE
        (run.folder / "run.json").write_text(json.dumps(told))
        tl.evidence(run.folder, to=at / f"{number}.zip", name=HOSTILE, role="buyer")
    made = tl.site(at, to=tmp_path_factory.mktemp("made") / "site")
    assert not made.refused
    return made.folder


@pytest.mark.parametrize("width", [390, 1280])
def test_every_kind_of_page_opens_from_a_disk_without_a_complaint(browser: Any, site: Path, width: int) -> None:
    facets = [next((site / kind).iterdir()).relative_to(site) for kind in ("models", "executors", "machines")]
    for page in (*PAGES, *facets):
        opened = Opened(browser, site / page, width, scheme="dark")
        assert opened.complaints == [], page
        assert opened.ask("document.documentElement.scrollWidth") == width, page
        assert opened.ask("document.title") != "owned", page
        assert all(each.startswith(("file:", "data:")) for each in opened.requests), page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_accessible(browser: Any, site: Path, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for page in PAGES:
        opened = Opened(browser, site / page, 1280, scheme=scheme, scripted=True)
        found = Axe().run(opened.page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], page


def test_the_search_leaves_the_packs_whose_rows_have_the_words(browser: Any, site: Path) -> None:
    opened = Opened(browser, site / "index.html", 1280)
    opened.page.fill("#find", "buyer fake")
    assert opened.page.inner_text("#count") == "2 of 2"
    opened.page.fill("#find", "no such word")
    assert opened.page.inner_text("#count") == "0 of 2"
    assert opened.page.locator("[data-find]:visible").count() == 0
    opened.page.keyboard.press("Enter")
    assert opened.page.url.endswith("index.html")
