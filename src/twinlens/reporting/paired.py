"""Ratios of points that took turns, as a report shows them: between which groups, whether ranked, and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.point_name import point_names
from twinlens.reporting.view import in_order
from twinlens.reporting.wording.finding import clause_of, short
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.paired.by_turns import ByTurns, by_turns, slice_rates
from twinlens.stats.paired.ratio import PairedRatio
from twinlens.stats.summary.group import Group

Reference = Callable[[Group, Sequence[Group]], Group | None]


@dataclass(frozen=True, slots=True)
class Paired:
    """The ratio of one group's rate to its reference's. `fault`: what keeps it from being ranked, "" where nothing."""

    group: Group
    reference: Group
    result: PairedRatio
    fault: str

    @property
    def ranked(self) -> bool:
        return not self.fault

    @property
    def is_headline(self) -> bool:
        """Whether it is of the rate that stands first in this lens, not of a part such as decode."""
        return self.result.metric != "decode_tokens_per_s"


def paired(groups: Sequence[Group], runs: Iterable[Run], reference_of: Reference) -> tuple[Paired, ...]:
    """The ratios of all groups that took turns with their reference, headline first; none where none did."""
    by_id = {run.id: run for run in runs if run.sections.pairing}
    if not by_id:
        return ()
    rates = {id: slice_rates(run) for id, run in by_id.items() if run.is_finished}
    ratios = list[Paired]()
    for group in in_order(groups):
        alike = [other for other in groups if other.lens == group.lens]
        reference = reference_of(group, alike)
        if reference is not None:
            names = dict(zip(map(id, alike), point_names(alike), strict=True))
            turns = by_turns(group, reference, by_id, rates, (names[id(group)], names[id(reference)]))
            ratios += [Paired(group, reference, each.ratio, _fault(each)) for each in turns]
    return tuple(ratios)


def paired_json(ratios: Sequence[Paired]) -> list[dict[str, Any]]:
    """As plain data, for --json and paired.json."""
    return [
        {
            "lens": pair.group.lens,
            "model": pair.group.model,
            "point": pair.group.point,
            "reference": pair.reference.point,
        }
        | pair.result.to_json()
        | {"ranked": pair.ranked, "fault": pair.fault}
        for pair in ratios
    ]


def ratio_words(pair: Paired) -> str:
    """ "1.83× (1.79–1.87×)", or that no difference can be told."""
    ratio, interval = pair.result.ratio, display.factor_bounds(pair.result.ratio)
    if ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high:
        return f"{display.factor(ratio)} ({interval}: no difference can be told)"
    return f"{display.factor(ratio)} ({interval or 'no interval'})"


def paired_words(pair: Paired) -> str:
    """ "bf16 sustains 1.83× (1.79–1.87×) the tokens/s of fp32", and whether it is the ratio or the rates that rank."""
    label = METRICS[pair.result.metric].label if pair.result.metric in METRICS else "rate"
    return f"{pair.result.above} sustains {ratio_words(pair)} the {label} of {pair.result.below}"


def standing_words(ratios: Sequence[Paired]) -> str:
    """Which of the ratio and the rates is ranked, with the reason for what is not."""
    rates = {id(group): group for pair in ratios for group in (pair.group, pair.reference)}.values()
    ratio = "the ratio is ranked" if len(ratios) == 1 else "the ratios are ranked"
    if all(group.ranked for group in rates):
        return f"{ratio}, and so are the absolute rates"
    reasons = "; ".join(dict.fromkeys(display.clean(group.label, 60) for group in rates if not group.ranked))
    return f"{ratio}, the absolute rates are not: {reasons}"


def _fault(turns: ByTurns) -> str:
    """Why a ratio may not be ranked; "" where it may."""
    if turns.own:
        return short(turns.own[0].code)
    if turns.ratio.label != "level":
        return f"{turns.ratio.label} ({clause_of(turns.ratio.reason)})"
    return "" if turns.ratio.ranked else "no interval"
