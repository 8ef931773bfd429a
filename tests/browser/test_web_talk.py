"""Measuring and talking in a real browser, with the network cut: no request leaves the machine, nothing is complained
of, and what a model says is text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

from plain_server import Plain, plain, stream
from served_site import site as serving
from twinlens.web.work.job import new_folder, start

pytestmark = pytest.mark.browser
ENEMY = "<img src=x onerror=alert(1)>\x1b[2J\u202eevil"
_HOSTILE = stream(
    *({"choices": [{"delta": {"content": text}}]} for text in ("Good ", "day ", ENEMY)),
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
)


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page of one site, that fails where it asks beyond loopback or says something on its console."""
    said: list[str] = []
    with serving(tmp_path_factory.mktemp("runs")) as url:
        context = browser.new_context(base_url=url, viewport={"width": 390, "height": 800})
        opened = context.new_page()
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.on("request", lambda asked: said.append(asked.url) if _is_outside(asked.url) else None)
        yield opened
        context.close()
    assert said == []


def _is_outside(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname != "127.0.0.1"


def _is_fine(page: Any) -> None:
    """Nothing that axe finds, and nothing wider than a narrow screen."""
    assert [each["id"] for each in Axe().run(page).response["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_study_is_checked_as_one_types_and_the_form_keeps_its_place(page: Any) -> None:
    page.goto(f"/measure?{urlencode({'example': 'decode'})}")
    _is_fine(page)
    page.fill("#set", "protocol.repeat=2")
    page.wait_for_selector("#refused:has-text(\"did you mean 'repeats'\")")
    assert page.locator("#start").count() == 0
    page.fill("#set", "protocol.repeats=2")
    page.wait_for_selector("#start button")
    assert "can be measured here" in page.inner_text("main")
    assert "protocol.repeats" in page.url
    assert page.evaluate("document.activeElement.id") == "set"
    page.click("summary:has-text('a spec of your own')")
    page.fill("#text", "[workload]\nkind = 'trainin'")
    page.wait_for_selector("#refused:has-text('the pasted spec')")


def test_two_servers_answer_side_by_side_as_text_and_the_talk_is_saved(page: Any) -> None:
    with plain(Plain(answers={"/v1/chat/completions": _HOSTILE})) as one, plain(Plain(models=[ENEMY])) as other:
        page.goto(f"/chat?{urlencode({'a': one.url, 'b': other.url})}")
        page.fill("#prompt", "<b>hello</b>")
        page.click("#send")
        page.wait_for_selector("#answers article:nth-of-type(1) dl div")
        page.wait_for_selector("#answers article:nth-of-type(2) dl div")
        assert page.inner_text(".answer >> nth=0") == "Good day <img src=x onerror=alert(1)>␛[2J⟨U+202E⟩evil"
        assert page.locator("#answers img, #answers b").count() == 0
        assert "n = 1" in page.inner_text("#answers article >> nth=0")
        _is_fine(page)
        page.click("#save")
        saved = page.locator("#kept a").first
        saved.wait_for()
        assert saved.get_attribute("href").startswith("/runs/")
        page.click("#spec")
        page.wait_for_selector("#spec-text:has-text('[executor.options]')")
    assert [body["messages"] for _, path, _, body in one.asked if path.endswith("completions")] == [
        [{"role": "user", "content": "<b>hello</b>"}]
    ]


def test_the_list_of_work_says_what_there_is_and_offers_the_demo(page: Any) -> None:
    page.goto("/jobs")
    assert "Run the demo" in page.inner_text("main")
    _is_fine(page)


def test_a_job_is_watched_and_stopped_by_its_button(page: Any, tmp_path: Path) -> None:
    (tmp_path / "sleeping.py").write_text(
        "import sys, time\nprint('asleep', file=sys.stderr, flush=True)\ntime.sleep(60)"
    )
    job = start(new_folder(tmp_path), ["measure"], {**os.environ, "PYTHONPATH": str(tmp_path)}, module="sleeping")
    with serving(tmp_path) as url:
        page.goto(f"{url}jobs/{job.id}")
        page.wait_for_selector("#state:has-text('asleep')")
        assert "Running" in page.inner_text("#state")
        page.click("button:has-text('Stop')")
        page.wait_for_selector("[data-state=stopped]")
        assert page.inner_text("h1") == "measure: stopped"


def test_a_job_of_another_is_shown_as_text(page: Any, tmp_path: Path, browser: Any) -> None:
    folder = tmp_path / ".jobs" / "1"
    folder.mkdir(parents=True)
    record = {"words": [ENEMY, ENEMY], "started_utc": ENEMY, "begun_s": 1, "process": {"pid": 1}}
    (folder / "job.json").write_text(json.dumps(record))
    (folder / "err.txt").write_text(ENEMY)
    (folder / "exit").write_text("2")
    with serving(tmp_path) as url:
        page.goto(f"{url}jobs/1")
        assert page.locator("main img").count() == 0
        assert "<img src=x" in page.inner_text("main")
        _is_fine(page)
