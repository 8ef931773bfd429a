"""Two hundred run folders that mean harm: the explorer and the pages of runs show them escaped, and never fail."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from report_material import training_run
from twinlens.measurement.summary_file import store_summary
from twinlens.web.runs.index import Index

ATTACK = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}\x1b[31m‮"
NAMES = ("<img src=x onerror=alert(1)>", "a&b\"c'", "..%2f..%2fetc", "\udcff\udcfe", "sp ace", "-rf", "x" * 200)
COUNT = 200


class Elements(HTMLParser):
    """The scripts, images and handlers of a page, as a browser finds them."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        words = dict(attributes)
        is_ours = tag == "script" and ("src" in words or words.get("type") == "application/json")
        if (tag in ("script", "img", "iframe", "object") and not is_ours) or any(
            name.startswith("on") for name in words
        ):
            self.bad.append(self.get_starttag_text() or tag)
        if str(words.get("href", "")).casefold().startswith(("javascript:", "data:text")):
            self.bad.append(self.get_starttag_text() or tag)


def changes(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Ways to spoil a record: what it holds, or the text of its file."""
    for place in (
        "id",
        "state",
        "lens",
        "error",
        "started_utc",
        "ended_utc",
        "fingerprint",
        "twinlens",
        "facts",
        "asked",
    ):
        yield place, record | {place: ATTACK}
        yield place, record | {place: [ATTACK]}
        yield place, record | {place: None}
    for schema in (99, -1, "1", None, 1e308):
        yield "schema", record | {"schema": schema}
    for part, name in (("workload", "model"), ("executor", "kind"), ("point", "precision"), ("protocol", "seed")):
        for value in (ATTACK, None, 10**90, float("nan"), [], {}):
            asked = record["asked"]
            yield name, record | {"asked": asked | {part: asked[part] | {name: value}}}
    yield "name", record | {"asked": record["asked"] | {"name": ATTACK}}
    facts = {"value": ATTACK, "capture": "observed", "source": ATTACK}
    named = dict.fromkeys(("accelerator.product", "host.cpu.model", ATTACK), facts)
    yield "facts", record | {"facts": {"executor": named, "notes": [ATTACK]}}
    for text in (
        "",
        "{",
        "null",
        "[]",
        "[" * 9999,
        '{"a":' * 9999,
        "NaN",
        "\x00",
        '{"schema": 1, "a": "\\ud800"}',
        "9" * 9999,
    ):
        yield "text", text


def make(folder: Path, good: Path) -> None:
    record = json.loads((good / "run.json").read_text())
    spoilt = [each for _, each in changes(record)]
    for number in range(COUNT):
        name = (
            NAMES[number]
            if number < len(NAMES)
            else f"2026-01-{number % 28 + 1:02}T000000Z_{number}_{ATTACK[:8]}".replace("/", "")
        )
        run = folder / os.fsdecode(os.fsencode(name))
        run.mkdir()
        content = spoilt[number % len(spoilt)]
        (run / "run.json").write_text(content if isinstance(content, str) else json.dumps(content))
        if number % 3 == 0:
            os.link(good / "steps.arrows", run / "steps.arrows")
        elif number % 3 == 1:
            (run / "steps.arrows").write_bytes((good / "steps.arrows").read_bytes()[: number * 30])
        if number % 5 == 0:
            (run / "summary.json").write_text(
                json.dumps({"validity": ATTACK, "seal": "0" * 64, "metrics": {"x": float("nan")}})
            )


def test_two_hundred_hostile_folders_render_escaped_and_never_fail(served, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    good, _ = training_run(tmp_path / "good", rows=60)
    store_summary(good)
    folder = tmp_path / "runs"
    folder.mkdir()
    make(folder, good.folder)
    for name in ("pipe", "link"):
        (folder / name).mkdir()
    os.mkfifo(folder / "pipe" / "run.json")
    (folder / "link" / "run.json").symlink_to(good.folder / "run.json")
    shutil.copytree(good.folder, folder / "linked rows", ignore=shutil.ignore_patterns("steps.arrows"))
    (folder / "linked rows" / "steps.arrows").symlink_to(good.folder / "steps.arrows")
    ids = [each.id for each in Index([folder]).listing().runs]
    assert len(ids) == COUNT + 2  # a hidden folder is none
    seen: dict[int, int] = {}
    with served(folder) as url:
        pages = [
            "runs",
            "runs?lens=unreadable",
            "runs?lens=training",
            f"runs?model={'%3Cscript%3E' * 9}&q=%22%3E%3Cimg",
        ]
        pages += [*(f"runs/{id}" for id in ids[::7]), *(f"runs/{id}/rows" for id in ids[::40])]
        for path in pages:
            status, body = _got(url + path)
            seen[status] = seen.get(status, 0) + 1
            assert "this page failed" not in body, path
            assert "Traceback" not in body
            elements = Elements()
            elements.feed(body)
            assert elements.bad == [], path
            assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", body), path
    assert set(seen) <= {200, 400}  # rows that are none are refused in a sentence; nothing else is
    assert seen[200] >= 30


def _got(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        return refused.code, refused.read().decode()
