"""The lines before any table: how many points are ranked, and the gravest findings with their points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.record.finding import Finding
from twinlens.reporting.all_attempts import with_all_attempts
from twinlens.reporting.display import clean, join_names
from twinlens.reporting.load_kind import fault_of
from twinlens.reporting.machine import machines
from twinlens.reporting.paired import Paired
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.view import LENSES, in_order, point_names
from twinlens.reporting.wording.finding import clause_of
from twinlens.stats.summary.group import Group

MOST, MOST_WARNINGS = 5, 3
_ORDER = ("disqualifies", "warns")


@dataclass(frozen=True, slots=True)
class Line:
    """One finding of one or more points of a lens: its severity, the points, and the sentence of the first."""

    severity: str
    code: str
    lens: str
    points: tuple[str, ...]
    text: str


def first_lines(groups: Sequence[Group], turns: Sequence[Paired] = ()) -> RenderableType:
    """The verdict on all points in one line, then the top findings; nothing to say beyond the verdict is one line.

    `turns`: the ratios of points that took turns, which are ranked apart from the points.
    """
    ranked, lines = sum(one.ranked for one in groups), finding_lines(groups)
    # What disqualifies comes first; warnings only fill the first few lines.
    most = max(MOST_WARNINGS, min(MOST, sum(one.severity == "disqualifies" for one in lines)))
    words = verdict_words(groups, turns) + _left_out(groups)
    verdict = hanging("", words, "bold" if ranked == len(groups) else "yellow")
    shown = [hanging("✗ " if one.severity == "disqualifies" else "! ", said_of(one), "yellow") for one in lines[:most]]
    places = machines(groups)
    if places:
        but = " but by turns" if any(one.one.tag != one.reference.tag for one in turns) else ""
        shown.append(hanging("", f"Machines, between which no ratio is made{but}: {'; '.join(places)}.", ""))
    more = len(lines) - most
    left = [Text(f"… {more} more: see --json or the report", style="dim")] if more > 0 else []
    return Stack(verdict, *shown, *left, Text(""))


def verdict_words(groups: Sequence[Group], turns: Sequence[Paired] = ()) -> str:
    """ "3 of 4 points are ranked. 1 ratio from paired slices is ranked."."""
    return _verdict(sum(one.ranked for one in groups), len(groups)) + _ratios(turns)


def finding_lines(groups: Sequence[Group]) -> tuple[Line, ...]:
    """What disqualifies and what warns, the gravest first; alike findings of several points together."""
    found: dict[tuple[str, str, str, str], list[tuple[str, str]]] = {}
    for lens, one, name in _named(groups):
        for finding, often in _of(one):
            key = finding.severity, finding.code, finding.subject, lens
            besides = with_all_attempts(one) if finding.code == "retaken" else ""
            found.setdefault(key, []).append((name, f"{clause_of(finding)}{besides}{often}."))
    order = sorted(found, key=lambda key: _ORDER.index(key[0]))
    lines = []
    for severity, code, subject, lens in order:
        points = found[severity, code, subject, lens]
        lines.append(Line(severity, code, lens, tuple(name for name, _ in points), points[0][1]))
    return tuple(lines)


def _of(one: Group) -> list[tuple[Finding, str]]:
    """Each kind of finding of a group once, with in how many of its runs it is."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for run in one.runs:
        for key in dict.fromkeys((found.code, found.subject) for found in run.findings if found.severity in _ORDER):
            kinds.setdefault(key, []).append(
                next(found for found in run.findings if (found.code, found.subject) == key)
            )
    runs = len(one.runs)
    return [(found[0], "" if runs == 1 else f" (in {len(found)} of {runs} runs)") for found in kinds.values()]


def said_of(line: Line) -> str:
    return f"{line.lens.capitalize()}, {clean(join_names(line.points, 3))}: {line.text}"


def _left_out(groups: Sequence[Group]) -> str:
    named = [(lens, one, name) for lens, one, name in _named(groups) if not one.ranked]
    said = [f"{lens}, {clean(name)} ({fault_of(one)})" for lens, one, name in named]
    listed = join_names(said, 4, "; ")
    return f" Not ranked: {listed}." if said else ""


def _named(groups: Sequence[Group]) -> list[tuple[str, Group, str]]:
    """Lens, group and name, in the order of tables."""
    found: list[tuple[str, Group, str]] = []
    for lens in LENSES:
        mine = in_order([one for one in groups if one.lens == lens])
        found += [(lens, one, name) for one, name in zip(mine, point_names(mine), strict=True)]
    return found


def _ratios(turns: Sequence[Paired]) -> str:
    """How many ratios from paired slices are ranked; "" where nothing took turns."""
    ranked, count = sum(one.ranked for one in turns), len(turns)
    if not count:
        return ""
    if count == 1 and not ranked:
        return " The one ratio from paired slices is not ranked."
    if ranked == count:
        return f" {count} ratio{'s' * (count > 1)} from paired slices {'are' if count > 1 else 'is'} ranked."
    return f" {ranked or 'None'} of {count} ratios from paired slices {'are' if ranked > 1 else 'is'} ranked."


def _verdict(ranked: int, count: int) -> str:
    if ranked == count:
        return "The one point is ranked." if count == 1 else f"All {count} points are ranked."
    if not ranked:
        return "The one point is not ranked." if count == 1 else f"None of {count} points is ranked."
    return f"{ranked} of {count} points {'is' if ranked == 1 else 'are'} ranked."
