"""A newcomer's walk through the site, in any browser whose tab can do what `Walker` says."""

from __future__ import annotations

import json
from typing import Any, Protocol

PAGES = ("", "runs", "compare", "diagnose", "plan", "plan/capacity?model=8B&device=H100&users=4",
         "claim?says=A+70B+model+needs+140+GB",
         "lab?spec=serve-vllm-gpu&device=H100&at=rate_per_s%3D4&batching=continuous&seeds=1&set=protocol.duration_s%3D4",
         "measure", "jobs", "chat", "explain", "explain/tpot")  # fmt: skip
_LEAD = "document.querySelector('#document .lead').textContent"


class Walker(Protocol):
    """`ask`: an expression of the page; `until`: it comes to hold, whatever loads meanwhile; `fill` as by hand."""

    def go(self, path: str) -> None: ...
    def ask(self, script: str) -> Any: ...
    def until(self, script: str) -> None: ...
    def click(self, css: str) -> None: ...
    def fill(self, css: str, text: str) -> None: ...
    def press(self, css: str, key: str) -> None: ...
    def end(self) -> None: ...


def says(css: str, text: str) -> str:
    return f"document.querySelector({json.dumps(css)})?.textContent.includes({json.dumps(text)})"


def command_of(tab: Walker) -> str:
    return str(tab.ask("document.querySelector('#command')?.textContent ?? ''"))


def runs_the_demo(tab: Walker) -> None:
    tab.go("")
    assert tab.ask("document.querySelectorAll('.ways article').length") == 3
    assert command_of(tab) == "twinlens demo"
    tab.click(".ways form button")
    tab.until("location.pathname.startsWith('/jobs/')")
    tab.until(says("#state", "Running"))
    assert tab.ask(says("#state", "it goes on"))
    assert command_of(tab).startswith("twinlens demo --out")


def watches_it_to_its_end(tab: Walker) -> None:
    tab.until(says("#state .standing", "Done"))
    assert tab.ask("document.querySelectorAll('#state a[href^=\"/runs/\"]').length") >= 4
    tab.click("#state a[href='/']")
    tab.until("document.querySelectorAll('#document .rate').length >= 4")
    assert tab.ask("document.querySelectorAll('#panel-training, #panel-inference').length") == 2


def compares_two_precisions_and_is_refused_two_lenses(tab: Walker) -> None:
    for first, second, said in (("training", "training", "Only the precision differs"),
                                ("training", "inference", "no ratio of the two means anything")):  # fmt: skip
        tab.go("runs")
        tab.until("document.querySelectorAll('#compare input[name=run]').length >= 4")
        tab.click(f"#lens-{first} + .scroll tbody tr:nth-child(1) input")
        tab.click(f"#lens-{second} + .scroll tbody tr:nth-last-child(1) input")
        tab.until(says("#ticked", "2 ticked."))
        tab.click("#compare button.main")
        tab.until(f"location.pathname === '/compare' && {says('#document', said)}")
        assert command_of(tab).startswith("twinlens compare ")


def chats_and_sees_why_its_tpot_is_what_it_is(tab: Walker, server: str) -> None:
    tab.go(f"chat?a={server}")
    tab.fill("#prompt", "Say hello")
    tab.click("#send")
    tab.until("document.querySelectorAll('#answers dl div').length > 3 && !document.querySelector('#send').disabled")
    assert tab.ask("document.querySelector('#answers dl').textContent.match(/n = 1/g).length") >= 3
    assert tab.ask(says("#answers dl", "measured: p50"))
    assert command_of(tab).startswith("twinlens measure --url ")
    tab.click("#answers a[href^='/diagnose']")
    tab.until(f"location.pathname === '/diagnose' && {says('#document', 'ecode')}")
    assert command_of(tab).startswith("twinlens diagnose ")


def plans_from_this_machine_to_eight_and_back(tab: Walker) -> None:
    tab.go("plan")
    tab.click("form[action='/plan/probe'] button")
    tab.until(f"location.pathname === '/plan/fit' && {says('#document .lead', '1 × this')}")
    slider = "input[aria-label='Devices, slider']"
    tab.fill("#in-device", "H200")
    tab.until(says("#document .lead", "1 × h200"))
    _slide(tab, slider, "ArrowRight", "8")
    tab.until(says("#document .lead", "8 × h200"))
    tab.until("location.search.includes('devices=8')")
    assert "--device H200 --devices 8" in command_of(tab)
    _slide(tab, slider, "ArrowLeft", "1")
    tab.fill("#in-device", "this")
    tab.until(says("#document .lead", "1 × this"))
    assert "--device this" in command_of(tab)


def _slide(tab: Walker, slider: str, key: str, count: str) -> None:
    for _ in range(20):
        if tab.ask("document.querySelector('#in-devices').value") == count:
            return
        tab.press(slider, key)
    raise AssertionError(f"the slider never stopped at {count}")


def pastes_claims(tab: Walker) -> None:
    tab.go("claim")
    tab.fill("#says", "A 70B model in FP16 needs 140 GB")
    tab.click("form[method=get] button.main")
    tab.until(f"location.search.startsWith('?says=') && {says('#document', '140')}")
    assert command_of(tab).startswith("twinlens claim ")
    tab.click("main details:last-of-type > summary")
    tab.until("document.querySelector('#page').offsetHeight > 0")
    tab.fill("#page", "A 70B model in FP16 needs 140 GB. H100 has 5.0 TB/s of memory bandwidth.")
    tab.click("form[method=post] button.main")
    tab.until("document.querySelectorAll('#document tbody tr').length === 2")


def looks_at_every_page(tab: Walker, width: int) -> None:
    for path in PAGES:
        tab.go(path)
        tab.until("document.querySelector('main h1') && !document.querySelector('[data-renew]')")
        assert tab.ask("document.documentElement.scrollWidth") <= width, path
