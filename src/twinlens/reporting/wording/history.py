"""Sentences on the history of a metric: when it changed, by how much, and what in the executor changed then."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.comparison.history import Change, Edit, History
from twinlens.record.estimate import Estimate
from twinlens.reporting.display import bare, clean, join_names, value
from twinlens.reporting.wording.comparison import label_of, values_words
from twinlens.reporting.wording.number import percent
from twinlens.stats.history import FEWEST_ENTRIES

_MOST_EDITS = 4


def head_words(history: History) -> str:
    """ "TTFT p99: 1 change in 30 measurements." """
    label, count = label_of(history.metric), len(history.entries)
    if count < FEWEST_ENTRIES:
        return f"{label}: {count} measurements. Changes are looked for in {FEWEST_ENTRIES} or more."
    found = len(history.changes)
    said = f"{found} change{'s' if found > 1 else ''}" if found else "no change shows"
    return f"{label}: {said} in {count} measurements."


def change_words(history: History, change: Change) -> str:
    """ "2026-11-12: 12 % higher (9 to 15 %), which is worse: 41.2 ms → 46.1 ms. driver 550 → 560 changed then." """
    worse = {True: ", which is worse", False: ", which is better", None: ""}[change.is_worse]
    levels = f"{_level(history, change.before)} → {_level(history, change.after)}"
    when, span = date_of(history, change.shift.at), ""
    if change.shift.earliest < change.shift.latest:
        first, last = (date_of(history, place) for place in (change.shift.earliest, change.shift.latest))
        span = f" (from {first} to {last}, as far as the values tell)" if first != last else ""
    return f"{when}{span}: {size_words(change)}{worse}: {levels}. {edits_words(history, change)}"


def size_words(change: Change) -> str:
    """ "12 % higher"; where a value is 0 or below, the difference."""
    ratio, gap = change.ratio, change.difference
    if ratio.value is None:
        return f"{value(gap)} more" if (gap.value or 0) > 0 else f"{value(gap)} (less)"
    return f"{percent(abs(ratio.value - 1))} {'higher' if ratio.value > 1 else 'lower'}"


def edits_words(history: History, change: Change) -> str:
    """What in the executor changed where the level did."""
    if not change.edits:
        return "Nothing that is recorded of the executor changed then."
    at = [each for each in change.edits if each.at == change.shift.at]
    names = _edits(at or change.edits)
    if at:
        return f"Then changed: {names}."
    return f"Nearby, on {date_of(history, change.edits[0].at)}, changed: {names}."


def quiet_words(history: History) -> str:
    """Edits of the executor at which no change of level showed; "" where there was none."""
    if not history.quiet or len(history.entries) < FEWEST_ENTRIES:
        return ""
    places = dict.fromkeys(each.at for each in history.quiet)
    told = [
        f"{date_of(history, at)}: {_edits([each for each in history.quiet if each.at == at])}"
        for at in list(places)[-_MOST_EDITS:]
    ]
    earlier = len(places) - len(told)
    more = f"; and at {earlier} earlier measurement{'s' if earlier > 1 else ''}" if earlier else ""
    return f"Changed without a change of level: {'; '.join(told)}{more}."


def changed_at(history: History, place: int) -> str:
    """What in the executor changed just before an entry; "" where nothing did."""
    of_levels = (edit for change in history.changes for edit in change.edits)
    return _edits([each for each in (*of_levels, *history.quiet) if each.at == place])


def date_of(history: History, place: int) -> str:
    """The day of an entry; with the time where two entries are of one day."""
    days = {each.at_utc[:10] for each in history.entries}
    day, _, time = history.entries[place].at_utc.partition("T")
    if len(days) == len(history.entries):
        return clean(day, 20)
    digits = time.replace(":", "")
    return clean(f"{day} {digits[:2]}:{digits[2:4]}:{digits[4:6]}", 20)


def _edits(edits: Sequence[Edit]) -> str:
    told = []
    for edit in edits:
        one = edit.difference
        told.append(f"{one.label} {values_words(one.label, one.a)} → {values_words(one.label, one.b)}")
    return join_names(list(dict.fromkeys(told)), _MOST_EDITS)


def _level(history: History, level: Estimate) -> str:
    return bare(level) if level.unit in label_of(history.metric) else value(level)
