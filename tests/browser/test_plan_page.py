"""Pages of plans, as people see them: in a real browser, with the network cut, and with hostile names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_other_pages import _CUT, _OUTSIDE
from test_report_page import HOSTILE, Opened

from twinlens import plan
from twinlens.record.finding import Finding
from twinlens.reporting.document.block import Arithmetic, Bar, Bars, Cell, Document, Line, Row, Table
from twinlens.reporting.document.html import told, write
from twinlens.reporting.wording.finding import clause_of
from twinlens.theory.figure import Figure, Input, absent, assumed

pytestmark = pytest.mark.browser


def _pages() -> dict[str, Document]:
    found = {
        "fit": plan.fit("70B", users=16, context="32K", device="B200"),
        "training": plan.fit("70B", train="full"),
        "capacity": plan.capacity("8B", device="H100", users=32, tpot="25ms"),
        "rate": plan.capacity("8B", device="H100", rate=1),
        "step": plan.capacity("8B", device="H100", devices=8, train="full", tokens="1B"),
        "choose": plan.choose("70B", users=16, context="8K"),
        "check": plan.check("70B", device="H100", devices=4, users=16),
        "method": plan.method("8B", device="H100", corpus="20M"),
        "cost": plan.cost("4 requests/s", rent="3 USD/h", users="1000", uses="10"),
        "roi": plan.roi(buy="30000 USD", rent="3 USD/h", energy="0.2 USD/kWh", power="1000 W", busy="50%"),
    }
    return {**{name: each.document() for name, each in found.items()}, "hostile": _hostile()}


def _hostile() -> Document:
    unknown = Finding("plan-unknown", "warns", HOSTILE, {"model": HOSTILE, "needs": "layers"})
    inner = Figure(HOSTILE, 2.0, "bytes", "{0} × {1}", (Input(HOSTILE, HOSTILE, "", HOSTILE), Input("b", 2, "1")),
                   source=HOSTILE, assumptions=(assumed("model", HOSTILE),))  # fmt: skip
    tree = (Figure("needed", 2.0, "bytes", "{0}", (inner,)), absent(HOSTILE, "bytes", unknown))
    blocks = (
        Line(HOSTILE, is_lead=True),
        Bars((Bar(HOSTILE, inner, HOSTILE),), HOSTILE, HOSTILE, is_drawn=True),
        Row(HOSTILE, (HOSTILE, clause_of(unknown))),
        Table(HOSTILE, (HOSTILE,), ((Cell(HOSTILE),),)),
        Arithmetic(tree, (), ((HOSTILE, tree[0]),)),
    )
    return Document(HOSTILE, HOSTILE, blocks)


NAMES = ("fit", "training", "capacity", "rate", "step", "choose", "check", "method", "cost", "roi", "hostile")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = Path(tmp_path_factory.mktemp("plans"))
    return {name: write(page, folder / f"{name}.html") for name, page in _pages().items()}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [390, 1280])
def test_a_plan_opens_quietly_and_no_word_of_a_chart_is_cut(
    browser: Any, pages: dict[str, Path], name: str, width: int
) -> None:
    opened = Opened(browser, pages[name], width)
    opened.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert opened.requests == [pages[name].as_uri()]
    assert opened.complaints == []
    assert opened.page.title() != "owned"
    assert opened.ask("document.querySelectorAll('script, img').length") == 0
    assert opened.ask("document.documentElement.scrollWidth") == width
    drawn = opened.ask("document.querySelectorAll('figure svg, figure.bars').length")
    assert (drawn >= 1) == (name != "check")
    assert name == "hostile" or opened.ask(_OUTSIDE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_a_checker_of_accessibility_finds_nothing_serious_in_a_plan(
    browser: Any, pages: dict[str, Path], name: str, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened = Opened(browser, pages[name], 390 if scheme == "dark" else 1280, scheme=scheme, scripted=True)
    opened.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    found = Axe().run(opened.page).response
    assert len(found["passes"]) > 10
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in serious] == []


@pytest.mark.parametrize("name", NAMES)
def test_on_paper_no_table_of_a_plan_is_cut_and_the_arithmetic_is_there(
    browser: Any, pages: dict[str, Path], name: str
) -> None:
    opened = Opened(browser, pages[name], 720)
    opened.page.emulate_media(media="print")
    assert name == "hostile" or opened.ask(_CUT) == 0
    shown = "[...document.querySelectorAll('details p')].filter(one => one.getBoundingClientRect().height > 0).length"
    assert opened.ask(shown) > 0


def test_every_figure_of_a_tree_is_on_the_page(pages: dict[str, Path]) -> None:
    text = pages["fit"].read_text(encoding="utf-8")
    for words in ("KV cache: 171.8 GB", "16 users × 10.74 GB", "80 layers", "Source:", "up to 3 %"):
        assert words in text
    needed = plan.fit("70B", users=16, context="32K", device="B200").answer.asked
    assert needed is not None
    assert told(replace(needed.needed, level=0.9)).band.endswith("(90% band)")
