"""Histories: change points in runs over time, what changed then, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

from sides import side
from twinlens.comparison.history import Entry, History, history
from twinlens.record.codec import encode
from twinlens.reporting.comparing.history import history_document
from twinlens.reporting.document.html import html
from twinlens.reporting.document.markdown import markdown
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.text.fitted import plain
from twinlens.stats.history import LEVEL, difference_of_levels, ratio_of_levels, shifts

METRIC = "output_tokens_per_s"


def nights(values: Sequence[float], stacks: dict[int, dict[str, Any]] | None = None) -> History:
    """A measurement a night; from the night of each of `stacks` on its facts hold."""
    stack: dict[str, Any] = {}
    entries = []
    for night, value in enumerate(values):
        stack |= (stacks or {}).get(night, {})
        one = side(f"night {night}", {METRIC: [value]}, stack=stack)
        entries.append(Entry(one, f"2026-10-{night + 1:02d}T03:00:00Z", value))
    return history(entries, METRIC)


def noise(seed: int, count: int, correlation: float = 0.0) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal(count + 50)
    return np.asarray(lfilter([1.0], [1.0, -correlation], drawn)[50:])


SLOWER = 100 + noise(1, 24) * 0.5 - 9.0 * (np.arange(24) >= 14)


def test_a_change_has_its_day_its_size_and_what_changed_then() -> None:
    found = nights(SLOWER, {6: {"host.kernel": "6.8"}, 14: {"software.driver.version": "560"}})
    (change,) = found.changes
    assert change.shift.at == 14
    assert change.is_worse is True
    assert change.ratio.value == pytest.approx(0.91, abs=0.01)
    assert [edit.difference.field for edit in change.edits] == ["software.driver.version"]
    assert [(edit.at, edit.difference.field) for edit in found.quiet] == [(6, "host.kernel")]
    text = plain(screen(history_document([found])))
    assert text.startswith("output tokens/s: 1 change in 24 measurements.")
    words = " ".join(text.split())
    assert re.search(r"2026-10-15: [89]\.?\d* % lower", words)
    assert "Then changed: driver 550 → 560." in words
    assert "2026-10-07: kernel 6.1 → 6.8" in words
    assert max(map(len, text.splitlines())) <= 80


def test_a_stretch_that_ends_again_is_two_changes() -> None:
    values = 100 + noise(2, 40) + 10.0 * ((np.arange(40) >= 12) & (np.arange(40) < 24))
    assert [shift.at for shift in shifts(values)] == [12, 24]


def test_one_odd_night_a_constant_and_too_few_are_no_change() -> None:
    odd = 100 + noise(3, 30)
    odd[17] = 900
    assert shifts(odd) == ()
    assert shifts([5.0] * 40) == ()
    assert shifts([1.0, 1, 1, 1, 9, 9, 9, 9, 9]) == ()
    assert "9 measurements. Changes are looked for in 10 or more" in plain(
        screen(history_document([nights([5.0] * 9)]))
    )


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_of_histories_without_a_change_few_are_said_to_have_one(correlation: float) -> None:
    """At most 5 % of 300; 23 of 300 are 7.7 %, which a share of 5 % gives in one of 50 such tests."""
    said = sum(bool(shifts(noise(seed, 30, correlation))) for seed in range(300))
    assert said <= 23
    assert LEVEL < 0.05


def test_a_change_that_was_looked_for_has_no_interval() -> None:
    """A t interval held the truth in 90 and 71 % at a correlation of 0.3, in 71 and 52 % at 0.6."""
    values = 100 + noise(3, 30)
    for found in (ratio_of_levels(values[:15], values[15:]), difference_of_levels(values[:15], values[15:], "1/s")):
        assert (found.low, found.high, found.level) == (None, None, None)
        assert "chosen where the levels differ most" in found.lacks


def test_a_ratio_of_what_may_be_0_is_a_difference() -> None:
    ratio = ratio_of_levels(np.array([0.0, 1, 2]), np.array([3.0, 4, 5]))
    assert (ratio.value, ratio.reason) == (None, "a ratio needs values above 0; see the difference")


def test_markdown_page_and_json_say_the_same() -> None:
    found = nights(SLOWER, {14: {"software.driver.version": "<b>560</b>"}})
    notes, page = markdown(history_document([found])), html(history_document([found]))
    assert "## output tokens/s: 1 change in 24 measurements." in notes
    for text in (notes, page):
        assert "% lower" in text
        assert "<b>560" not in text
    assert "<svg" in page
    data = encode(found)
    assert data["changes"][0]["at_utc"] == "2026-10-15T03:00:00Z"
    assert len(data["entries"]) == 24


def test_edits_beyond_the_last_few_are_counted_and_the_page_has_all_of_them() -> None:
    found = nights(SLOWER, {night: {"host.kernel": f"6.{night}"} for night in range(2, 12)})
    words = " ".join(plain(screen(history_document([found]))).split())
    assert "; and at 6 earlier measurements." in words
    page = html(history_document([found]))
    assert "changed before it" in page
    assert all(f"kernel 6.{night} → 6.{night + 1}" in page for night in range(2, 11))
