"""The page of gateways: what each wrote of itself, and files that nobody's gateway wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.gateway.scripted import CHAT, Conversation, gateway_of, in_loop, scripted, whole

from twinlens.gateway.backend import Backend
from twinlens.gateway.page import gateway_document
from twinlens.pages import find
from twinlens.reporting.document.html import html
from twinlens.web.gateways import _document, _standings

COUNTED = ("requests", "failed", "ttft_s", "predicted_ttft_s", "regret_s")
"""Fields whose own fields are words for what was counted, or an estimate's."""


def standing() -> dict[str, Any]:
    async def fails(to: Conversation) -> None:
        await to.head("503 No", "application/json")

    async def run() -> dict[str, Any]:
        async with (
            scripted(fails) as a,
            scripted(whole) as b,
            gateway_of(Backend("a", a.url, "m"), Backend("b", b.url, "m"), stream_failure="continue") as served,
        ):
            for _ in range(3):
                await served.stream(CHAT)
            await served.ask({"messages": []})
            plain: dict[str, Any] = json.loads(json.dumps(served.app.standing()))
            return plain

    return in_loop(run())


def test_the_page_says_what_was_answered_by_whom_and_what_clients_never_saw(tmp_path: Path) -> None:
    plain = standing()
    (tmp_path / "gateway.json").write_text(json.dumps(plain))
    ((path, found),) = _standings([tmp_path])
    assert found == plain
    text = "\n".join(str(each) for each in _document(path, found).blocks)
    assert "3 of 4 requests were answered to their end" in text
    assert "1 refused" in text
    assert "not measured" in text
    assert "attempts at another backend" in text
    page = html(gateway_document(plain, "gateway"))
    for word in ("in flight", "TTFT p90", "not measured", "round-robin"):
        assert word in page


def test_every_field_of_a_standing_is_explained() -> None:
    page = find("gateway.json").text

    def names(plain: Any) -> set[str]:
        if isinstance(plain, list):
            return {name for each in plain for name in names(each)}
        if not isinstance(plain, dict):
            return set()
        return set(plain).union(*(names(each) for name, each in plain.items() if name not in COUNTED))

    told = names(standing())
    assert told > {"backends", "identity", "regret_s", "predicted_ttft_s", "held"}
    assert {each for each in told if f"`{each}`" not in page} == set()


def test_what_is_no_standing_is_a_sentence_and_names_are_text(tmp_path: Path) -> None:
    plain = standing()
    plain["backends"][0]["name"] = plain["policy"] = "<script>alert(1)</script>"
    assert "<script>alert" not in html(gateway_document(plain, "<script>alert(2)</script>"))
    for wrong in ("[]", "{}", "3", '{"requests": 5}', "{", json.dumps({**plain, "backends": 7})):
        (tmp_path / "gateway.json").write_text(wrong)
        for path, found in _standings([tmp_path]):
            assert "no standing of a gateway" in html(_document(path, found))
