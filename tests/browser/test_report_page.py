"""The report as people see it: in a real browser, with the network cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from report_material import inference_run, study, training_run
from twinlens.record.finding import in_words
from twinlens.reporting.report.page import write
from twinlens.reporting.view import view

pytestmark = pytest.mark.browser
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><svg onload=alert(1)>"
# Per chart: width, height, least height of its words, number of shapes.
_BOXES = """document.querySelectorAll('details').forEach(one => one.open = true),
[...document.querySelectorAll('figure svg')].map(svg => {
    const box = svg.getBoundingClientRect();
    const words = [...svg.querySelectorAll('text')].filter(one => one.textContent.trim());
    const high = Math.min(...words.map(one => one.getBoundingClientRect().height));
    return [box.width, box.height, high, svg.querySelectorAll('path,rect,line,circle').length];
})"""

# Words of a chart that stick out of it, and tick labels of horizontal axes that touch the next one.
_TANGLED = """document.querySelectorAll('details').forEach(one => one.open = true),
[...document.querySelectorAll('figure svg')].flatMap(svg => {
    const box = svg.getBoundingClientRect();
    const words = [...svg.querySelectorAll('text')].filter(one => one.textContent.trim())
        .map(one => [one.textContent, one.getBoundingClientRect()]);
    const out = words.filter(([, it]) => it.left < box.left - 1 || it.right > box.right + 1);
    const on = words.filter(([text, it], at) => words.some(([other, its], to) => to > at && text !== other
        && Math.min(it.right, its.right) - Math.max(it.left, its.left) > 2
        && Math.min(it.bottom, its.bottom) - Math.max(it.top, its.top) > 4));
    return [...out, ...on].map(([text]) => text);
})"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(tmp_path_factory.mktemp("page"))
    return write(view(study(folder / "runs")), folder / "report.html")


class Opened:
    """A page and what it did that it should not."""

    def __init__(self, browser: Any, path: Path, width: int, *, scheme: str = "light", scripted: bool = False) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            offline=True,
            color_scheme=scheme,
            bypass_csp=scripted,  # the page's own policy lets no script in, axe's neither
        )
        self.page = context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.mark.parametrize("width", [390, 768, 1280, 1600])
def test_the_page_opens_offline_quietly_and_never_scrolls_sideways(browser: Any, report: Path, width: int) -> None:
    opened = Opened(browser, report, width)
    assert opened.requests == [report.as_uri()]
    assert opened.complaints == []
    assert opened.ask("document.documentElement.scrollWidth") == width


def test_no_detail_pushes_the_page_sideways_when_all_are_open(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, 400)
    opened.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert opened.ask("document.documentElement.scrollWidth") == 400


def test_on_a_phone_no_table_ends_in_mid_number_and_each_number_has_its_head(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, 390)
    opened.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    cut = "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth)"
    assert opened.ask(f"{cut}.map(one => one.getAttribute('aria-label'))") == []
    past = "[...document.querySelectorAll('.scroll td')].filter(one => one.scrollWidth > one.clientWidth + 1)"
    assert opened.ask(f"{past}.map(one => one.innerText)") == []
    bare = "[...document.querySelectorAll('.cards tbody td')].filter(one => !('head' in one.dataset))"
    assert opened.ask(f"{bare}.length") == 0
    assert opened.ask("document.querySelectorAll('.cards td[data-head]').length") > 20


def test_a_table_that_is_wider_than_the_screen_has_a_shadow_where_it_goes_on(browser: Any, report: Path) -> None:
    shadow = Opened(browser, report, 1280).ask(
        "getComputedStyle(document.querySelector('.scroll')).backgroundAttachment"
    )
    assert shadow.split(", ") == ["local", "local", "scroll", "scroll"]


@pytest.mark.parametrize("width", [390, 1280])
def test_every_chart_is_drawn_and_large_enough_to_read(browser: Any, report: Path, width: int) -> None:
    opened = Opened(browser, report, width)
    boxes = opened.ask(_BOXES)
    assert len(boxes) == 19
    for wide, high, text, shapes in boxes:
        assert wide >= 300
        assert high >= 60
        assert text >= 9
        assert shapes >= 5


@pytest.mark.parametrize("width", [390, 1280])
def test_no_word_of_a_chart_is_cut_off_or_lies_on_another(browser: Any, report: Path, width: int) -> None:
    assert Opened(browser, report, width).ask(_TANGLED) == []


def test_links_to_definitions_lead_somewhere(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, 1280)
    opened.page.click("#training ~ * thead a >> nth=0")
    assert opened.ask("location.hash") == "#metric-training_tokens_per_s"
    assert opened.ask("document.querySelector(':target').getBoundingClientRect().top < innerHeight")


def test_hostile_names_stay_words(browser: Any, tmp_path: Path) -> None:
    pairs = []
    for run, summary in (training_run(tmp_path, notes=(HOSTILE,)), inference_run(tmp_path, error=HOSTILE)):
        point = summary.point | {"precision": HOSTILE}
        verdict = replace(summary.verdict, label=HOSTILE, reason=in_words(HOSTILE))
        pairs.append((run, replace(summary, model=HOSTILE, point=point, verdict=verdict)))
    opened = Opened(browser, write(view(pairs, title=HOSTILE), tmp_path / "report.html"), 1280)
    assert opened.complaints == []
    assert len(opened.requests) == 1
    assert opened.ask("document.querySelectorAll('script, img, [onload], [onerror]').length") == 0
    assert opened.page.title() != "owned"
    assert "<script>" in opened.page.inner_text("h1")
    assert opened.ask("document.documentElement.scrollWidth") == 1280


def test_paper_gets_the_answer_and_not_the_folded_evidence(browser: Any, report: Path, tmp_path: Path) -> None:
    opened = Opened(browser, report, 1280)
    opened.page.emulate_media(media="print")
    assert opened.ask("document.querySelector('.panels .box').getBoundingClientRect().height") > 0
    assert opened.ask("document.querySelector('details:not(.printed)').getBoundingClientRect().height") == 0
    cut = "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1).length"
    opened.page.set_viewport_size({"width": 720, "height": 1000})  # A4 less its margins
    assert opened.ask(cut) == 0
    target = tmp_path / "report.pdf"
    opened.page.pdf(path=str(target), format="A4")
    assert target.read_bytes().startswith(b"%PDF")


def test_the_answer_comes_before_what_stands_against_it_and_that_is_short(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, 1280)
    said, against = (opened.ask(f"document.querySelector('{one}').offsetTop") for one in (".panels", ".box.of-bad"))
    assert said < against < 900
    assert opened.ask("document.querySelectorAll('.box.of-bad > .rows > div').length") <= 3


def test_the_first_screen_holds_both_lenses_side_by_side_and_the_page_is_six_screens(
    browser: Any, report: Path
) -> None:
    opened = Opened(browser, report, 1280)
    panels = "[...document.querySelectorAll('.panels .box')]"
    boxes = opened.ask(f"{panels}.map(one => one.getBoundingClientRect().toJSON())")
    assert [box["top"] for box in boxes] == [boxes[0]["top"]] * 2
    assert max(box["bottom"] for box in boxes) <= 800
    assert opened.ask("document.documentElement.scrollHeight") <= 6 * 800
    bars = opened.ask("[...document.querySelectorAll('.rate b')].map(one => one.getBoundingClientRect().width)")
    assert len(bars) >= 2
    assert max(bars) > 1, "intervals are drawn"
    folds = opened.ask("[...document.querySelectorAll('details.fold > summary')].every(one => one.tabIndex === 0)")
    assert folds, "a keyboard opens what is folded"


def test_on_a_phone_the_figures_of_both_lenses_are_on_the_first_screen_and_share_a_scale(
    browser: Any, report: Path
) -> None:
    opened = Opened(browser, report, 390)
    ends = opened.ask("[...document.querySelectorAll('.rates')].map(one => one.getBoundingClientRect().bottom)")
    assert len(ends) == 2
    assert max(ends) <= 844
    widths = opened.ask("[...document.querySelectorAll('.rate')].map(one => one.getBoundingClientRect().width)")
    assert len(set(widths)) == 1, "a bar that is twice as long stands for twice the rate"


def test_all_unfolds_every_metric(browser: Any, report: Path, tmp_path: Path) -> None:
    whole = write(view(study(tmp_path / "runs")), tmp_path / "all.html", unfolded=True)
    closed = "[...document.querySelectorAll('details')].filter(one => !one.open).length"
    assert Opened(browser, report, 1280).ask(closed) > 0
    assert Opened(browser, whole, 1280).ask(closed) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_checker_of_accessibility_finds_nothing_serious(browser: Any, report: Path, width: int, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened = Opened(browser, report, width, scheme=scheme, scripted=True)
    found = Axe().run(opened.page).response
    assert len(found["passes"]) > 10
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in serious] == []


def test_a_key_press_leads_past_the_head_to_the_answer(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, 1280)
    opened.page.keyboard.press("Tab")
    assert opened.ask("document.activeElement.textContent") == "Skip to the answer"
    opened.page.keyboard.press("Enter")
    assert opened.ask("location.hash") == "#answer"


def test_a_keyboard_leads_from_a_number_to_why_it_has_none(browser: Any, tmp_path: Path) -> None:
    opened = Opened(browser, write(view([inference_run(tmp_path, rows=40)]), tmp_path / "one.html"), 1280)
    opened.page.focus("sup a >> nth=0")
    opened.page.keyboard.press("Enter")
    assert opened.ask("document.querySelector(':target').tagName") == "LI"
    assert opened.ask("document.querySelector(':target').getBoundingClientRect().height") > 0
