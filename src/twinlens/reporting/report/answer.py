"""The answer of a report: a panel for each lens, and what stands against its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.document.block import Bar, Bars, Beside, Block, Box, Line, Section, filled, row
from twinlens.reporting.judging.diagnosis import Points
from twinlens.reporting.load_kind import SERVED, fault_of, load_of
from twinlens.reporting.report.executor import Stack
from twinlens.reporting.text.first_lines import finding_lines, said_of
from twinlens.reporting.view import LENSES, Entry, LensView, View, headline, why_not_valid
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import METRICS

_MOST = 5
"""Points of a picture; a table below has all."""
_MOST_WARNINGS = 3
"""Warnings that stand open at the top; the rest is one click away."""


def panels(view: View, said: Mapping[str, str], diagnosed: Mapping[Lens, tuple[Points, Sequence[str]]]) -> Beside:
    """A panel for each lens that was measured, training first; never one for both. `said`: a sentence of each lens."""
    lenses = sorted((each for each in view.lenses if each.entries), key=lambda each: LENSES.index(each.lens))
    return Beside(tuple(_panel(lens, said.get(lens.lens, ""), diagnosed[lens.lens][0]) for lens in lenses))


def _panel(lens: LensView, said: str, diagnosed: Points) -> Box:
    """The rate of each point of the first model with its interval drawn, what binds it, and one sentence."""
    ordered = sorted(lens.parts[0], key=lambda each: not each.group.ranked)
    known = [
        (each, pair) for each in ordered if (pair := headline(each.group)) is not None and pair[1].value is not None
    ]
    metric = known[0][1][0] if known else ""
    shown = [(each, pair[1]) for each, pair in known if pair[0] == metric][:_MOST]
    lead = shown[0][0] if shown else ordered[0]
    binds = next((each for name, each in diagnosed if name == lead.name), None)
    machine, more = lead.group.machine, len(lens.entries) - len(shown)
    of = " · ".join([lead.group.model, *([machine.name] if machine else [])])
    label = METRICS[metric].label if metric else "rate, which was not measured"
    blocks: list[Block] = [
        Line(f"Sustained {label}, with its interval. {display.clean(of, 100)}.", "dim"),
        *([Bars(tuple(_bar(*each) for each in shown), "", "", is_drawn=True)] if shown else []),
        *([Line(f"{more} more point{'s' if more > 1 else ''} below.", "dim")] if more else []),
        row("what binds it", [f"{display.clean(lead.name, 80)}: {sentence_of(binds.verdict)}" if binds else ""]),
        Line(said),
    ]
    return Box(lens.lens.capitalize(), filled(blocks), anchor=f"panel-{lens.lens}")


def _bar(entry: Entry, estimate: Estimate) -> Bar:
    beside = display.bare_bounds(estimate) or "no interval"
    return Bar(display.clean(entry.name, 60), estimate, display.value(estimate), "part", beside,
               entry.group.validity, entry.precision)  # fmt: skip


def against_box(view: View, stack: Stack) -> Box:
    """What stands against the numbers: the gravest open, the rest and notes of runs in a fold."""
    told = doubts_of(view, stack)
    first, rest = told[:_MOST_WARNINGS], [*told[_MOST_WARNINGS:], *view.notes]
    fold = (Section(f"{len(rest)} more", tuple(row("·", [each]) for each in rest)),) if rest else ()
    if first:
        return Box("What stands against it", (*(row("!", [each]) for each in first), *fold), "bad", "validity")
    fine = Line("Every run finished and reached a steady state, and no check found a fault.")
    return Box("No problems found with these numbers", (fine, *fold), "good", "validity")


def doubts_of(view: View, stack: Stack) -> tuple[str, ...]:
    """Warnings that a reader must see before any number: not valid, unfinished, not as declared, not recorded."""
    sentences = [said_of(line) for line in finding_lines([group for lens in view.lenses for group in lens.groups])]
    for lens in view.lenses:
        sentences += _served_validity(lens)
        for entry in lens.entries:
            reason = why_not_valid(entry.group)
            if reason is not None and load_of(entry.group) not in SERVED and not _only_found(entry):
                sentences.append(f"{lens.lens.capitalize()}, {entry.name} is {reason}.")
            for run, _ in entry.material:
                if run.error:
                    sentences.append(f"{display.clean(run.id, 80)} ended with an error: {display.clean(run.error)}")
    for who, verdict, missing in stack.completeness:
        if verdict == "vendor-number":
            sentences.append(
                f"{who}: too little is known of the executor; treat this like an unverified figure of a vendor."
            )
        elif missing:
            sentences.append(f"{who}: the executor is {verdict}; {len(missing)} facts are not known.")
    sentences += [f"{run} recorded no executor, so its numbers belong to no known stack." for run in stack.without]
    return tuple(dict.fromkeys(sentences))


def _only_found(entry: Entry) -> bool:
    """Whether it is not valid for what checks found alone, which has been said."""
    steady = all(run.state == "finished" and run.verdict.validity != "not valid" for run in entry.group.runs)
    return steady and entry.group.verdict.reason is None


def _served_validity(lens: LensView) -> list[str]:
    """One sentence a label on served points, of which a search has many beyond the limit; each reason stands below."""
    entries = lens.under(*SERVED).entries
    faults: dict[str, list[str]] = {}
    for entry in entries:
        if (fault := fault_of(entry.group)) and not _only_found(entry):
            faults.setdefault(fault, []).append(entry.name)
    sentences = [
        f"{lens.lens.capitalize()}, served: "
        f"{f'{len(names)} of {len(entries)} points' if len(entries) > 1 else 'the one point'} not valid, {fault}: "
        f"{display.join_names(names)}."
        for fault, names in faults.items()
    ]
    return sentences
