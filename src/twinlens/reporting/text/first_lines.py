"""The lines before any table: how many points are valid, and the gravest findings with their points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from twinlens.record.finding import Finding, Validity
from twinlens.reporting import display
from twinlens.reporting.display import clean, join_names
from twinlens.reporting.load_kind import fault_of
from twinlens.reporting.paired import Paired
from twinlens.reporting.point_name import point_names
from twinlens.reporting.view import LENSES, headline, in_order
from twinlens.reporting.wording.finding import clause_of
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Group, mean_of_attempts

_ORDER = ("disqualifies", "warns")


@dataclass(frozen=True, slots=True)
class Line:
    """One finding of one or more points of a lens: its severity, the points, and the sentence of the first."""

    severity: str
    code: str
    lens: str
    points: tuple[str, ...]
    text: str


def verdict_words(groups: Sequence[Group], turns: Sequence[Paired] = ()) -> str:
    """ "Of 4 points 3 are valid, 1 provisional. 1 ratio from paired slices is valid."."""
    ratios = f" {_counted([turn.validity for turn in turns], 'paired ratio')}" if turns else ""
    return _counted([group.validity for group in groups], "point") + ratios


def finding_lines(groups: Sequence[Group]) -> tuple[Line, ...]:
    """Findings that disqualify or warn, the gravest first; alike findings of several points together."""
    by_kind: dict[tuple[str, str, str, str], list[tuple[str, str]]] = {}
    for lens, group, name in _named(groups):
        for finding, often in _of(group):
            # What the other repeats refuted does not disqualify the point.
            key = "warns" if group.ranked else finding.severity, finding.code, finding.subject, lens
            besides = with_all_attempts(group) if finding.code == "retaken" else ""
            by_kind.setdefault(key, []).append((name, f"{clause_of(finding)}{besides}{often}."))
    order = sorted(by_kind, key=lambda key: _ORDER.index(key[0]))
    lines = []
    for severity, code, subject, lens in order:
        points = by_kind[severity, code, subject, lens]
        lines.append(Line(severity, code, lens, tuple(name for name, _ in points), points[0][1]))
    return tuple(lines)


def _of(group: Group) -> list[tuple[Finding, str]]:
    """Each kind of finding of a group once, with in how many of its runs it is."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for run in group.runs:
        for key in dict.fromkeys(
            (matching.code, matching.subject) for matching in run.findings if matching.severity in _ORDER
        ):
            kinds.setdefault(key, []).append(
                next(matching for matching in run.findings if (matching.code, matching.subject) == key)
            )
    runs = len(group.runs)
    return [(matching[0], "" if runs == 1 else f" (in {len(matching)} of {runs} runs)") for matching in kinds.values()]


def said_of(line: Line) -> str:
    return f"{line.lens.capitalize()}, {clean(join_names(line.points, 3))}: {line.text}"


def not_valid_words(groups: Sequence[Group]) -> str:
    """ " Not valid: inference, fp32 · batch 2 (guard failed)."; "" where all points are valid or provisional."""
    named = [(lens, group, name) for lens, group, name in _named(groups) if not group.ranked]
    listed = join_names([f"{lens}, {clean(name)} ({fault_of(group)})" for lens, group, name in named], 4, "; ")
    return f" Not valid: {listed}." if listed else ""


def _named(groups: Sequence[Group]) -> list[tuple[str, Group, str]]:
    """Lens, group and name, in the order of tables."""
    named: list[tuple[str, Group, str]] = []
    for lens in LENSES:
        mine = in_order([group for group in groups if group.lens == lens])
        named += [(lens, group, name) for group, name in zip(mine, point_names(mine), strict=True)]
    return named


def _counted(states: Sequence[Validity], what: str) -> str:
    """ "All 4 points are valid.", "Of 7 points 2 are valid, 4 provisional, 1 not valid."."""
    counts = [(state, states.count(state)) for state in get_args(Validity) if state in states]
    if len(counts) == 1:
        (state, count) = counts[0]
        return f"The one {what} is {state}." if count == 1 else f"All {count} {what}s are {state}."
    (first, many), *others = counts
    told = ", ".join([first, *(f"{count} {state}" for state, count in others)])
    return f"Of {len(states)} {what}s {many} {'is' if many == 1 else 'are'} {told}."


# A rate with the attempts that were taken again in it: what a ranked rate leaves out, said beside it.


def with_all_attempts(group: Group) -> str:
    """ "; with them output tokens per second is 91.2 tokens/s, here 101 tokens/s"; "" where none was taken again."""
    pair = headline(group)
    every = mean_of_attempts(group, pair[0]) if pair and pair[1].value is not None else None
    if pair is None or every is None:
        return ""
    return f"; with them {METRICS[pair[0]].label} is {display.value(every)}, here {display.value(pair[1])}"
