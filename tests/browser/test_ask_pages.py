"""Pages that ask, as people use them: sliders, back, deep links and claims, in a browser without any network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from served_site import site

pytestmark = pytest.mark.browser
LEAD = "document.querySelector('#document .lead').textContent"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with site(tmp_path_factory.mktemp("runs")) as found:
        yield found


class Tab:
    """A page of the site, and what it did that it should not: other requests than to the site, or a word."""

    def __init__(self, browser: Any, url: str, path: str, width: int = 1280, scheme: str = "light") -> None:
        self.url, self.complaints, self.outside = url, list[str](), list[str]()
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._seen)
        self.page.goto(f"{url}{path}")

    def _seen(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:")):
            self.outside.append(request.url)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)

    def until(self, script: str) -> None:
        """Asked again and again: what waits inside a page is evaluated there, which its policy forbids."""
        for _ in range(400):
            if self.ask(script):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(script)

    def end(self, *, said: int = 0) -> None:
        """Nothing outside, nothing said in the console but `said` refusals of a form, which a browser notes itself."""
        assert self.outside == []
        assert len(self.complaints) == said, self.complaints
        self.context.close()


def violations(tab: Tab) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(tab.page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]


def test_a_slider_moves_the_answer_its_address_and_its_command(browser: Any, url: str) -> None:
    tab = Tab(browser, url, "plan/fit?model=8B&device=H100&users=4&context=8K")
    assert tab.ask(LEAD).startswith("Yes")
    slider = tab.page.get_by_label("Users, slider")
    slider.focus()
    for _ in range(8):
        slider.press("ArrowRight")
    tab.until(f"{LEAD}.startsWith('No')")
    assert tab.ask("document.activeElement.type") == "range"
    users = tab.ask("document.querySelector('#in-users').value")
    assert int(users) > 4
    tab.until("location.search.includes('users=' + document.querySelector('#in-users').value)")
    assert f"--users {users}" in tab.ask("document.querySelector('#command').textContent")
    assert tab.ask("document.querySelector('#told').textContent").startswith("No")
    for _ in range(9):  # on a busy machine the slider may have rested between two presses
        if "users=4&" in tab.ask("location.search + '&'"):
            break
        tab.page.go_back()
    tab.until("document.querySelector('#in-users').value === '4'")
    tab.until(f"{LEAD}.startsWith('Yes')")
    tab.end()


def test_wrong_words_stand_beside_the_form_and_the_last_answer_stays(browser: Any, url: str) -> None:
    tab = Tab(browser, url, "plan/fit?model=8B&device=H200")
    tab.page.fill("#in-users", "many")
    tab.until("document.querySelector('#wrong').textContent.includes('many')")
    assert tab.ask(LEAD).startswith("Yes")
    assert tab.ask("document.querySelector('#in-users').value") == "many"
    tab.page.fill("#in-users", "2")
    tab.until("document.querySelector('#wrong').textContent === ''")
    tab.end(said=len(tab.complaints))
    assert all("400" in each for each in tab.complaints)


def test_the_other_lens_is_one_choice_away(browser: Any, url: str) -> None:
    tab = Tab(browser, url, "plan/fit?model=8B&device=H200&users=4")
    tab.page.select_option("#in-train", "lora")
    tab.page.wait_for_url("**/plan/fit?*train=lora*")
    assert "users" not in tab.page.url
    assert tab.ask("document.querySelectorAll('#in-users').length") == 0
    assert "LoRA" in tab.ask("document.querySelector('#document').textContent")
    tab.end()


def test_a_chart_is_drawn_when_the_slider_rests(browser: Any, url: str) -> None:
    tab = Tab(browser, url, "plan/roi?device=H100&energy=0.1+USD/kWh&busy=50%25")
    tab.until("document.querySelectorAll('[data-chart] svg').length === 2")
    tab.page.get_by_label("Busy, slider").press("ArrowRight")
    tab.until("document.querySelector('.ran').textContent.includes('60 %')")
    tab.until("document.querySelectorAll('[data-chart] svg').length === 2 && !document.querySelector('.old')")
    tab.end()


def test_a_cursor_goes_through_the_lanes_of_the_lab(browser: Any, url: str) -> None:
    asked = "lab?spec=serve-vllm-gpu&device=H100&at=rate_per_s%3D4&batching=continuous,static(4)&seeds=1"
    tab = Tab(browser, url, f"{asked}&set=protocol.duration_s%3D4", 390, "dark")
    assert tab.ask("document.querySelectorAll('.lane svg').length") == 2
    before = tab.ask("document.querySelector('.lane .now').textContent")
    tab.page.get_by_label("Moment").press("End")
    assert tab.ask("document.querySelector('#at').textContent").endswith(" s")
    assert tab.ask("document.querySelector('.lane .now').textContent") != before
    assert "static(4)" in tab.ask("document.querySelector('#moment').getAttribute('aria-valuetext')")
    assert violations(tab) == []
    assert tab.ask("document.documentElement.scrollWidth") == 390
    tab.end()


PAGES = ("plan", "plan/capacity?model=8B&device=H100&users=4", "plan/model", "claim?says=A+70B+model+needs+140+GB",
         "explain/ttft", "explain?find=ttft", "compare", "diagnose")  # fmt: skip


def test_every_page_is_clean_and_never_wider_than_the_screen(browser: Any, url: str) -> None:
    """Half of them as on a phone in the dark, half on a desk in the light."""
    for place, (width, scheme) in enumerate(((390, "dark"), (1280, "light"))):
        tab = Tab(browser, url, PAGES[place], width, scheme)
        for path in PAGES[place::2]:
            tab.page.goto(f"{url}{path}")
            assert violations(tab) == [], path
            assert tab.ask("document.documentElement.scrollWidth") == width, path
        tab.end()


def test_a_page_of_claims_is_sent_and_comes_back_judged(browser: Any, url: str) -> None:
    tab = Tab(browser, url, "claim")
    tab.page.locator("summary", has_text="A whole page").click()
    tab.page.fill("#page", "A 70B model in FP16 needs 140 GB. H100 has 5.0 TB/s of memory bandwidth.")
    tab.page.get_by_role("button", name="Judge each figure").click()
    tab.until("document.querySelectorAll('#document tbody tr').length === 2")
    assert violations(tab) == []
    tab.end()
