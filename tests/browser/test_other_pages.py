"""The pages of a diagnosis, a comparison and a ledger, as people see them: in a real browser, with the network cut."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_report_page import Opened

from report_material import inference_run, training_run

sys.path.insert(0, str(Path(__file__).parent.parent / "comparison"))

from sides import side
from twinlens.comparison.history import Entry, History, history
from twinlens.comparison.ledger import Prices, ledger
from twinlens.comparison.lenses import lens_rows, runtime_shares
from twinlens.comparison.ranking import rankings
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.diagnosis.diagnosis import diagnose_run
from twinlens.record.finding import Finding
from twinlens.reporting.comparing.comparison import comparison_document
from twinlens.reporting.comparing.history import history_document
from twinlens.reporting.comparing.ledger import ledger_document
from twinlens.reporting.document.html import write
from twinlens.reporting.judging.diagnosis import diagnoses_document
from twinlens.reporting.tables import lenses_document, runtimes_document
from twinlens.reporting.view import view

pytestmark = pytest.mark.browser
PAGES = ("diagnosis", "comparison", "ledger", "lenses", "runtimes", "history")
CHARTLESS = ("lenses", "runtimes")
_CUT = "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1).length"
# Texts of one drawing that stick out of it, and pairs of labels of points that lie on each other.
_OUTSIDE = """[...document.querySelectorAll('figure svg')].flatMap(svg => {
    const box = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].filter(one => one.textContent.trim()).filter(one => {
        const it = one.getBoundingClientRect();
        return it.left < box.left - 1 || it.right > box.right + 1 || it.top < box.top - 1 || it.bottom > box.bottom + 1;
    }).map(one => one.textContent);
})"""


def _side(name: str, rate: float, *asked: str) -> Side:
    spread = (0.99, 1.0, 1.01)
    values = {
        "output_tokens_per_s": [8 * rate * each for each in spread],
        "requests_per_s": [rate * each for each in spread],
        "e2e_latency_s_p50": [1 / (rate * each) for each in spread],
        "tpot_s_p50": [0.02 * each for each in spread],
        "mbu": [0.3] * 3,
    }
    return replace(side(name, values, asked=asked), folder=name)


def _runtime(name: str) -> Side:
    load = {} if name == "engine" else {"arrival": {"kind": "closed"}, "point": {"concurrency": 1}}
    values = {"tpot_s_p50": (0.030, 0.031, 0.029) if name == "engine" else (0.040, 0.041, 0.039)}
    return side(name, values, stack={"model.parameters": 34e6, "software.framework.threads": 1}, **load)


def _nights() -> History:
    """Ten nights at 100 tokens/s and ten at 90, with another kernel each night of the second half."""
    entries = []
    for night in range(20):
        value = (100.0 if night < 10 else 90.0) + night % 3 * 0.2
        stack = {"host.kernel": f"6.{night}" if night > 9 else "6.1"}
        one = side(f"night {night}", {"output_tokens_per_s": [value]}, stack=stack)
        entries.append(Entry(one, f"2026-10-{night + 1:02d}T03:00:00Z", value))
    return history(entries, "output_tokens_per_s")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = Path(tmp_path_factory.mktemp("pages"))
    runs = [training_run(folder, "fp32", rows=60), inference_run(folder, "fp32", rows=60),
            inference_run(folder, "bf16", rows=60)]  # fmt: skip
    bf16 = "point.precision=bf16"
    steps = [_side("base · fp32", 10), _side("next · bf16", 20, bf16), _side("last · bf16", 21, bf16, "point.batch=4")]
    ranks = rankings([[_side(name, rate)] for name, rate in (("a", 10.0), ("b", 20.0), ("c", 20.1))])
    return {
        "diagnosis": write(
            diagnoses_document(
                [(entry, diagnose_run(*entry.material[0])) for lens in view(runs).lenses for entry in lens.entries]
            ),
            folder / "diagnosis.html",
        ),
        "comparison": write(
            comparison_document([compare(steps[0], each) for each in steps[1:]], (), ranks), folder / "comparison.html"
        ),
        "lenses": write(
            lenses_document(
                lens_rows([compare(steps[0], each) for each in steps[1:]]),
                [("base", Finding("fitness-unknown", "notes"))],
            ),
            folder / "lenses.html",
        ),
        "runtimes": write(
            runtimes_document(runtime_shares([_runtime("engine"), _runtime("server")])), folder / "split.html"
        ),
        "history": write(history_document([_nights()]), folder / "history.html"),
        "ledger": write(ledger_document(ledger(steps, prices=Prices(3.6, 1e6))), folder / "ledger.html"),
    }


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_opens_quietly_and_no_word_of_a_chart_is_cut(
    browser: Any, pages: dict[str, Path], name: str, width: int
) -> None:
    opened = Opened(browser, pages[name], width)
    opened.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert opened.requests == [pages[name].as_uri()]
    assert opened.complaints == []
    assert opened.ask("document.documentElement.scrollWidth") == width
    assert opened.ask("document.querySelectorAll('figure svg').length") >= (name not in CHARTLESS)
    assert opened.ask(_OUTSIDE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_checker_of_accessibility_finds_nothing_serious(
    browser: Any, pages: dict[str, Path], name: str, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened = Opened(browser, pages[name], 390 if scheme == "dark" else 1280, scheme=scheme, scripted=True)
    opened.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    found = Axe().run(opened.page).response
    assert len(found["passes"]) > 10
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in serious] == []


@pytest.mark.parametrize("name", PAGES)
def test_on_paper_no_table_is_cut_and_the_bar_of_time_keeps_its_colours(
    browser: Any, pages: dict[str, Path], name: str
) -> None:
    opened = Opened(browser, pages[name], 720)
    opened.page.emulate_media(media="print")
    assert opened.ask(_CUT) == 0
    adjust = "[...document.querySelectorAll('.whole')].map(one => getComputedStyle(one).printColorAdjust)"
    assert set(opened.ask(adjust)) == ({"exact"} if name == "diagnosis" else set())
