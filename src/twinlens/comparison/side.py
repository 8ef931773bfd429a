"""One side of a comparison: its name, its repeats and runs, and the metric that is asked of both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.record.run import Run
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.paired.slice_rate import Rates
from twinlens.stats.row_kind import row_kind
from twinlens.stats.summary.group import Group


@dataclass(frozen=True, slots=True)
class Side:
    """`name`: what it is called beside the other; `runs`: those of `group`, in its order; `folder`: where they lie."""

    name: str
    group: Group
    runs: tuple[Run, ...]
    folder: str = ""

    @property
    def lens(self) -> Lens:
        return self.group.lens

    @property
    def spec(self) -> dict[str, Any]:
        """All that was asked, as plain data; repeats share it but for the repeat.

        The precision is that of the group: a server that was up already has its own, whatever the default of a spec.
        """
        asked = self.runs[0].spec.to_dict()
        return asked | {"point": asked["point"] | {"precision": self.group.point["precision"]}}


def rates_of(chosen: Iterable[Side]) -> dict[str, Rates]:
    """The rates of the slices of runs that took turns, by id of the run."""
    runs = {run.id: run for side in chosen for run in side.runs}
    return {id: row_kind(run).slices(run) for id, run in runs.items() if run.sections.pairing and run.is_finished}


# A metric from words: its id, or the words of its label in any order ("p99 ttft", "ttft_p99").

_SIDES = re.compile(r"^\s*A:(?P<a>.+?)\s+B:(?P<b>.+?)\s*$")


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


def one_metric(text: str) -> str:
    """The metric of both sides: "TTFT p99", or "A:ttft_p99 B:ttft_p99". Raises BadInput (TL227) for two metrics: no
    ratio of a mean to a p99, nor of a peak to a sustained rate, says anything.
    """
    form = _SIDES.match(text)
    if form is None:
        return metric_of(text)
    a, b = (metric_of(form[side].strip()) for side in "ab")
    if a != b:
        ours, theirs = METRICS[a].label, METRICS[b].label
        raise BadInput(
            f"category error: A's {ours} is not comparable with B's {theirs}; compare {ours} with {ours}, "
            f"or {theirs} with {theirs}",
            code="TL227",
        )
    return a


def is_same(metric: str, asked: str) -> bool:
    """Whether it is the metric asked for; "images/s" is a metric of each lens under one label."""
    return metric == asked or (metric in METRICS and METRICS[metric].label == METRICS[asked].label)


def _words(text: str) -> list[str]:
    return sorted(text.replace("_", " ").casefold().split())
