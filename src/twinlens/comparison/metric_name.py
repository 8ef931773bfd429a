"""A metric from words: its id, or the words of its label in any order ("p99 ttft", "ttft_p99")."""

from __future__ import annotations

from twinlens.errors import BadInput, nearest
from twinlens.stats.metrics.definition import METRICS


def metric_of(words: str) -> str:
    """The id of a metric. Raises BadInput (TL227) with the nearest label."""
    if words in METRICS:
        return words
    asked = _words(words)
    alike = [each.id for each in METRICS.values() if _words(each.label) == asked]
    if not alike:
        labels = [each.label for each in METRICS.values() if each.group != "peer"]
        raise BadInput(f"there is no metric {words[:40]!r}; {nearest(words, labels)}", code="TL227")
    return alike[0]


def _words(text: str) -> list[str]:
    return sorted(text.replace("_", " ").casefold().split())
