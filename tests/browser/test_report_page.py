"""The report as people see it: in a real browser, with the network cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_material import inference_run, study, training_run

from twinlens.record.finding import in_words
from twinlens.reporting.html.render import write
from twinlens.reporting.view import view

pytestmark = pytest.mark.browser
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><svg onload=alert(1)>"
# Per chart: width, height, least height of its words, number of shapes.
_BOXES = """[...document.querySelectorAll('figure svg')].map(svg => {
    const box = svg.getBoundingClientRect();
    const words = [...svg.querySelectorAll('text')].filter(one => one.textContent.trim());
    const high = Math.min(...words.map(one => one.getBoundingClientRect().height));
    return [box.width, box.height, high, svg.querySelectorAll('path,rect,line,circle').length];
})"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(tmp_path_factory.mktemp("page"))
    return write(view(study(folder / "runs")), folder / "report.html")


class Opened:
    """A page and what it did that it should not."""

    def __init__(self, browser: Any, path: Path, width: int) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
        self.page = context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.mark.parametrize("width", [400, 768, 1280, 1600])
def test_the_page_opens_offline_quietly_and_never_scrolls_sideways(browser: Any, report: Path, width: int) -> None:
    opened = Opened(browser, report, width)
    assert opened.requests == [report.as_uri()]
    assert opened.complaints == []
    assert opened.ask("document.documentElement.scrollWidth") == width


def test_no_detail_pushes_the_page_sideways_when_all_are_open(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, 400)
    opened.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert opened.ask("document.documentElement.scrollWidth") == 400


@pytest.mark.parametrize("width", [400, 1280])
def test_every_chart_is_drawn_and_large_enough_to_read(browser: Any, report: Path, width: int) -> None:
    opened = Opened(browser, report, width)
    boxes = opened.ask(_BOXES)
    assert len(boxes) == 19
    for wide, high, text, shapes in boxes:
        assert wide >= 300
        assert high >= 60
        assert text >= 7
        assert shapes >= 5


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


def test_the_page_prints_with_its_details(browser: Any, report: Path, tmp_path: Path) -> None:
    opened = Opened(browser, report, 1280)
    opened.page.emulate_media(media="print")
    shown = opened.ask("document.querySelector('details table').getBoundingClientRect().height")
    assert shown > 0
    target = tmp_path / "report.pdf"
    opened.page.pdf(path=str(target), format="A4")
    assert target.read_bytes().startswith(b"%PDF")
