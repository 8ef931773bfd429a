"""Ratios of points that took turns, as a report shows them: between which groups, whether ranked, and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.view import in_order, point_names
from twinlens.reporting.wording.finding import clause_of, short
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.paired.ratio import PairedRatio, paired_ratio
from twinlens.stats.paired.slice_rate import SliceRates, inference_slices, training_slices
from twinlens.stats.summary.group import Group, Summary
from twinlens.stats.summary.serving import is_served

Reference = Callable[[Group, Sequence[Group]], Group | None]


@dataclass(frozen=True, slots=True)
class Paired:
    """The ratio of one group's rate to its reference's. `fault`: what keeps it from being ranked, "" where nothing."""

    one: Group
    reference: Group
    found: PairedRatio
    fault: str

    @property
    def ranked(self) -> bool:
        return not self.fault

    @property
    def is_headline(self) -> bool:
        """Whether it is of the rate that stands first in this lens, not of a part such as decode."""
        return self.found.metric != "decode_tokens_per_s"


def paired(groups: Sequence[Group], runs: Iterable[Run], reference_of: Reference) -> tuple[Paired, ...]:
    """The ratios of all groups that took turns with their reference, headline first; none where none did."""
    by_id = {run.id: run for run in runs if run.sections.pairing}
    if not by_id:
        return ()
    rates = {id: _slices(run) for id, run in by_id.items() if run.is_finished}
    found = []
    for one in in_order(groups):
        alike = [other for other in groups if other.lens == one.lens]
        reference = reference_of(one, alike)
        if reference is not None:
            found += _ratios(one, reference, by_id, rates, alike)
    return tuple(found)


def paired_json(found: Sequence[Paired]) -> list[dict[str, Any]]:
    """As plain data, for --json and paired.json."""
    return [
        {"lens": one.one.lens, "model": one.one.model, "point": one.one.point, "reference": one.reference.point}
        | one.found.to_json()
        | {"ranked": one.ranked, "fault": one.fault}
        for one in found
    ]


def said(one: Paired) -> str:
    """ "1.83× (1.79–1.87×)", or that no difference can be told."""
    ratio, interval = one.found.ratio, display.times_bounds(one.found.ratio)
    if ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high:
        return f"{display.times(ratio)} ({interval}: no difference can be told)"
    return f"{display.times(ratio)} ({interval or 'no interval'})"


def paired_words(one: Paired) -> str:
    """ "bf16 sustains 1.83× (1.79–1.87×) the tokens/s of fp32", and whether it is the ratio or the rates that rank."""
    label = METRICS[one.found.metric].label if one.found.metric in METRICS else "rate"
    return f"{one.found.above} sustains {said(one)} the {label} of {one.found.below}"


def standing_words(found: Sequence[Paired]) -> str:
    """What is ranked: the ratio, the rates, both; with the reason for what is not."""
    rates = {id(group): group for one in found for group in (one.one, one.reference)}.values()
    ratio = "the ratio is ranked" if len(found) == 1 else "the ratios are ranked"
    if all(group.ranked for group in rates):
        return f"{ratio}, and so are the absolute rates"
    reasons = "; ".join(dict.fromkeys(display.clean(group.label, 60) for group in rates if not group.ranked))
    return f"{ratio}, the absolute rates are not: {reasons}"


def _ratios(
    one: Group,
    reference: Group,
    runs: dict[str, Run],
    rates: dict[str, dict[str, SliceRates]],
    groups: Sequence[Group],
) -> list[Paired]:
    names = dict(zip(map(id, groups), point_names(groups), strict=True))
    pairings = {name: run.sections.pairing for name, run in runs.items() if run.sections.pairing}
    by_turns = {pairings[run.run].id: run for run in reference.runs if run.run in rates}
    members = [
        (run, by_turns[key]) for run in one.runs if run.run in rates and (key := pairings[run.run].id) in by_turns
    ]
    if not members:
        return []
    points = [pairings[run.run].points for run, _ in members]
    metrics = [
        name for name in rates[members[0][0].run] if all(name in rates[run.run] for pair in members for run in pair)
    ]
    found = []
    for metric in metrics:
        pairs = [(rates[above.run][metric], rates[below.run][metric]) for above, below in members]
        ratio = paired_ratio(pairs, points, names=(names[id(one)], names[id(reference)], metric))
        found.append(Paired(one, reference, ratio, _fault(ratio, members)))
    return found


def _fault(ratio: PairedRatio, members: Sequence[tuple[Summary, Summary]]) -> str:
    """Why a ratio may not be ranked. What disturbed the machine met both sides; other faults are the points' own."""
    own = [found.code for pair in members for run in pair for found in run.disqualified if found.code != "disturbed"]
    if own:
        return short(own[0])
    if ratio.label != "level":
        return f"{ratio.label} ({clause_of(ratio.reason)})"
    return "" if ratio.ranked else "no interval"


def _slices(run: Run) -> dict[str, SliceRates]:
    if run.lens == "training":
        return training_slices(run.steps, run.telemetry)
    return inference_slices(run.requests, run.telemetry, in_lockstep=not is_served(run))
