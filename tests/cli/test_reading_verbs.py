"""Verbs that read, print and end say so at their start; what measures keeps Python and its allocator as they are."""

from __future__ import annotations

import sys

import pytest

from twinlens.cli import main as entry
from twinlens.system import reading_process


@pytest.mark.parametrize(
    ("words", "reads"),
    [
        ("show RUN", True),
        ("diagnose RUN --all", True),
        ("compare A B", True),
        ("report RUN -o FILE.html", True),
        ("diagnose RUN --try", False),
        ("diagnose --self-test", False),
        ("diagnose RUN --instrument profiler", False),
        ("diagnose RUN --instrument=profiler", False),
        ("show --help", False),
        ("measure chat", False),
        ("", False),
    ],
)
def test_only_verbs_that_read_make_their_process_one_that_reads(
    monkeypatch: pytest.MonkeyPatch, words: str, reads: bool
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(sys, "argv", ["twinlens", *words.split()])
    monkeypatch.setattr(entry, "app", lambda **_: calls.append("app"))
    monkeypatch.setattr(reading_process, "only_read", lambda: calls.append("reads"))
    entry.main()
    assert calls == (["reads"] if reads else []) + ["app"]
