"""The way of a newcomer through the whole site, with the network cut off: in Chromium, and slowly in Firefox."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from newcomer import (
    Walker,
    chats_and_sees_why_its_tpot_is_what_it_is,
    compares_two_precisions_and_is_refused_two_lenses,
    looks_at_every_page,
    pastes_claims,
    plans_from_this_machine_to_eight_and_back,
    runs_the_demo,
    says,
    watches_it_to_its_end,
)
from playwright.sync_api import Error

from plain_server import Plain, plain, stream
from report_material import inference_run, training_run
from served_material import served_run
from served_site import site
from twinlens.measurement.summary_file import store_summary
from twinlens.record.store import create_study
from twinlens.spec.load import load_example
from twinlens.web.ask import this
from twinlens.web.work import job, pages

sys.path.insert(0, str(Path(__file__).parents[1] / "planning"))
from test_probed import probe as a_probe

pytestmark = pytest.mark.browser
_WORDS = stream(*({"choices": [{"delta": {"content": word}}]} for word in ("Good ", "day ", "to ", "you")),
                {"choices": [{"delta": {}, "finish_reason": "stop"}]})  # fmt: skip
_DEMO = """
import json, os, shutil, sys, time
from pathlib import Path
out = Path(next(each for each in sys.argv if each.startswith("--out=")).removeprefix("--out="))
print("building the model", file=sys.stderr, flush=True)
time.sleep(1.5)
for each in Path({ready!r}).iterdir():
    shutil.copytree(each, out / each.name)
    told = json.loads((out / each.name / "study.json").read_text())
    (out / each.name / "study.json").write_text(json.dumps(told | {{"pid": os.getpid()}}))
print("two studies")
"""


class ChromiumTab:
    """A tab of Chromium as a walk needs it."""

    def __init__(self, browser: Any, url: str, width: int = 1280, *, is_dark: bool = False) -> None:
        self.url, self.said, self.outside = url, list[str](), list[str]()
        self._context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if is_dark else "light",
            reduced_motion="reduce",
        )
        self.page = self._context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", self._seen)

    def _seen(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:")):
            self.outside.append(request.url)

    def go(self, path: str) -> None:
        self.page.goto(f"{self.url}{path}")

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)

    def until(self, script: str, patience_s: float = 60.0) -> None:
        """Asked from here: what waits inside a page is evaluated there, which its policy forbids."""
        for _ in range(int(20 * patience_s)):
            try:
                if self.ask(f"!!({script})"):
                    return
            except Error:  # the page goes away to another
                pass
            self.page.wait_for_timeout(50)
        raise AssertionError(script)

    def click(self, css: str) -> None:
        self.page.locator(css).first.click()

    def fill(self, css: str, text: str) -> None:
        self.page.fill(css, text)

    def press(self, css: str, key: str) -> None:
        self.page.press(css, key)

    def end(self) -> None:
        self._context.close()


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of runs, a demo that brings ready ones, and a probe of a known machine."""
    ready = tmp_path / "ready"
    for make in (training_run, inference_run):
        study = create_study(ready, load_example("decode"))
        for regime in ("fp32", "bf16"):
            store_summary(make(study, regime, rows=120)[0])
    (tmp_path / "quick_demo.py").write_text(_DEMO.format(ready=str(ready)))
    monkeypatch.setattr(pages, "start", lambda folder, words, environment: job.start(
        folder, words, {**environment, "PYTHONPATH": str(tmp_path)}, module="quick_demo"))  # fmt: skip
    monkeypatch.setattr(this, "_COMMAND", (sys.executable, "-c", f"print({json.dumps(json.dumps(a_probe()))})"))
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def server(out: Path) -> Iterator[str]:
    """A server that is up, and a run that measured it."""
    with plain(Plain(answers={"/v1/chat/completions": _WORDS})) as found:
        yield f"{found.url}/v1"


def _walk(tab: Walker, out: Path, server: str) -> None:
    runs_the_demo(tab)
    watches_it_to_its_end(tab)
    compares_two_precisions_and_is_refused_two_lenses(tab)
    store_summary(served_run(out, 2.0, seconds=20.0, url=server)[0])
    chats_and_sees_why_its_tpot_is_what_it_is(tab, server)
    plans_from_this_machine_to_eight_and_back(tab)
    pastes_claims(tab)


def test_a_newcomer_walks_from_the_demo_to_a_plan_and_finds_each_command(browser: Any, out: Path, server: str) -> None:
    with site(out) as url:
        tab = ChromiumTab(browser, url)
        _walk(tab, out, server)
        tab.end()
        phone = ChromiumTab(browser, url, 390, is_dark=True)
        looks_at_every_page(phone, 390)
        phone.end()
    assert [*tab.outside, *phone.outside] == []
    refused = [each for each in tab.said if "400 (Bad Request)" in each]  # counts of devices that do not divide a model
    assert [*tab.said, *phone.said] == refused


@pytest.mark.slow
@pytest.mark.trial
def test_the_real_demo_leads_to_both_lenses_and_its_model_answers(browser: Any, tmp_path: Path) -> None:
    """Minutes: everything is measured, and a real server is started from the page and ended."""
    with site(tmp_path) as url:
        tab = ChromiumTab(browser, url)
        runs_the_demo(tab)
        tab.until(says("#state .standing", "Done"), 3600.0)
        tab.click("#state a[href='/']")
        tab.until("document.querySelector('#newest') && !document.querySelector('[data-renew]')")
        assert "was not measured" not in tab.ask("document.querySelector('main').textContent")
        tab.go("chat")
        tab.click("form[action='/chat/serve'] button")
        tab.until("document.querySelector('#state a[href^=\"/chat\"]')", 300.0)
        tab.click("#state a[href^='/chat']")
        tab.until("document.querySelector('#url-a')?.value.startsWith('http://127.0.0.1:')")
        tab.fill("#prompt", "Why is the sky blue?")
        tab.click("#send")
        tab.until("document.querySelectorAll('#answers dl div').length > 3", 120.0)
        assert tab.ask(says("#answers .under", "answers mean nothing"))
        assert tab.ask(says("#answers dl", ", at 3 requests/s"))
        (one,) = [each for each in job.jobs(tmp_path) if each.verb == job.SERVE]
        tab.go(f"jobs/{one.id}")
        tab.click("form[action$='/stop'] button")
        tab.until(says("#state", "its server has ended"))
        tab.end()
    assert (tab.outside, tab.said) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize(("width", "is_dark"), [(1280, False), (390, True)])
def test_firefox_walks_the_same_way(firefox: Any, out: Path, server: str, width: int, is_dark: bool) -> None:
    with site(out) as url:
        tab = firefox(url, width, is_dark=is_dark)
        _walk(tab, out, server)
        looks_at_every_page(tab, width)
        assert tab.ask("matchMedia('(prefers-color-scheme: dark)').matches") is is_dark
    assert (tab.outside, tab.said) == ([], [])


@pytest.mark.slow
def test_what_firefox_says_and_asks_outside_is_heard(firefox: Any, out: Path) -> None:
    """What the walk in it is judged by."""
    with site(out) as url:
        tab = firefox(url)
        tab.go("")
        inline = "Object.assign(document.createElement('script'), {textContent: 'window.evil = 1'})"
        tab.ask(f"(console.error('heard'), document.body.append({inline}), window.evil ?? 0)")
        tab.until("document.title")
        assert any("heard" in each for each in tab.said)
        assert any("Content-Security-Policy" in each for each in tab.said)
        assert tab.ask("window.evil ?? 0") == 0
        with pytest.raises(AssertionError, match="navigate"):
            tab.go("http://192.0.2.1/")
    assert tab.outside == ["http://192.0.2.1/"]
