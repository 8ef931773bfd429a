"""A rate with the attempts that were taken again in it: what a ranked rate leaves out, said beside it."""

from __future__ import annotations

from twinlens.reporting import display
from twinlens.reporting.view import headline
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Group, mean_of_attempts


def with_all_attempts(group: Group) -> str:
    """ "; with them output tokens per second is 91.2 tokens/s, here 101 tokens/s"; "" where none was taken again."""
    pair = headline(group)
    every = mean_of_attempts(group, pair[0]) if pair and pair[1].value is not None else None
    if pair is None or every is None:
        return ""
    return f"; with them {METRICS[pair[0]].label} is {display.value(every)}, here {display.value(pair[1])}"
