"""Histories as GitHub-flavoured Markdown: what changed, the values, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.comparison.history import History
from twinlens.reporting.display import escaped
from twinlens.reporting.screen.history import drawn, subject_words
from twinlens.reporting.wording.finding import sentence_of
from twinlens.reporting.wording.history import change_words, head_words, quiet_words


def history_markdown(found: Sequence[History]) -> str:
    """One block for each history. Foreign words are escaped: they are only text."""
    return "\n\n".join(map(_block, found)) + "\n"


def _block(history: History) -> str:
    changes = [f"- {'❌ ' if each.is_worse else ''}{escaped(change_words(history, each))}" for each in history.changes]
    quiet = [f"- {escaped(words)}"] if (words := quiet_words(history)) else []
    left = [f"- {escaped(name)} is left out. {escaped(sentence_of(why))}" for name, why in history.left_out]
    lines = [f"**{escaped(head_words(history))}**", "", escaped(subject_words(history)), ""]
    return "\n".join([*lines, "```text", *drawn(history), "```", "", *changes, *quiet, *left]).rstrip()
