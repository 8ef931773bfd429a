"""Ratios of points that took turns, as a report shows them: between which groups, their state, and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.record.codec import encode
from twinlens.record.finding import Validity, weakest
from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.point_name import point_names
from twinlens.reporting.view import in_order
from twinlens.reporting.wording.finding import clause_of, short
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.paired.added import Added, added
from twinlens.stats.paired.ratio import ByTurns, PairedRatio, by_turns
from twinlens.stats.row_kind import row_kind
from twinlens.stats.summary.group import Group

Reference = Callable[[Group, Sequence[Group]], Group | None]


@dataclass(frozen=True, slots=True)
class Paired:
    """The ratio of one group's rate to its reference's. `fault`: why it is not valid, or provisional; else "".

    `added`: how much longer requests under load took, beside the ratio of the rate that stands first."""

    group: Group
    reference: Group
    result: PairedRatio
    validity: Validity
    fault: str
    added: Added | None = None

    @property
    def ranked(self) -> bool:
        """Whether it may be compared."""
        return self.validity != "not valid"

    @property
    def is_headline(self) -> bool:
        """Whether it is of the rate that stands first in this lens, not of a part such as decode."""
        return self.result.metric != "decode_tokens_per_s"


def ratios_lead(groups: Sequence[Group], turns: Sequence[Paired]) -> bool:
    """Whether ratios stand before rates: where a larger share of the ratios than of the rates may be compared."""
    comparable = sum(pair.ranked for pair in turns)
    return comparable * len(groups) > sum(group.ranked for group in groups) * len(turns)


def paired(groups: Sequence[Group], runs: Iterable[Run], reference_of: Reference) -> tuple[Paired, ...]:
    """The ratios of all groups that took turns with their reference, headline first; none where none did."""
    by_id = {run.id: run for run in runs if run.sections.pairing}
    if not by_id:
        return ()
    rates = {id: row_kind(run).slices(run) for id, run in by_id.items() if run.is_finished}
    ratios = list[Paired]()
    for group in in_order(groups):
        alike = sorted((other for other in groups if other.lens == group.lens), key=lambda one: _place(one, by_id))
        reference = reference_of(group, alike)
        if reference is not None:
            names = dict(zip(map(id, alike), point_names(alike), strict=True))
            both = (names[id(group)], names[id(reference)])
            turns = by_turns(group, reference, by_id, rates, both)
            more = added(group, reference, by_id, _addresses(group, reference) or both)
            ratios += [
                Paired(group, reference, each.ratio, each.validity, _fault(each), None if place else more)
                for place, each in enumerate(turns)
            ]
    return tuple(ratios)


def _place(group: Group, by_id: Mapping[str, Run]) -> int:
    """Where the spec lists it."""
    pairings = (by_id[run.run].sections.pairing for run in group.runs if run.run in by_id)
    return next((each.place or 0 for each in pairings if each is not None), 0)


def _addresses(group: Group, reference: Group) -> tuple[str, str] | None:
    """Of two servers that were up already, told apart by their addresses alone."""
    machines = group.machine, reference.machine
    names = [each.name for each in machines if each is not None and each.is_attached]
    return (names[0], names[1]) if len(set(names)) == 2 else None


def paired_json(ratios: Sequence[Paired]) -> list[dict[str, Any]]:
    """As plain data, for --json and paired.json."""
    return [
        {
            "lens": pair.group.lens,
            "model": pair.group.model,
            "point": pair.group.point,
            "reference": pair.reference.point,
        }
        | encode(pair.result)
        | {"validity": pair.validity, "fault": pair.fault}
        | ({} if pair.added is None else {"added": encode(pair.added)})
        for pair in ratios
    ]


def ratio_words(pair: Paired) -> str:
    """ "1.83× (1.79–1.87×)", or that no difference can be told."""
    ratio, interval = pair.result.ratio, display.factor_bounds(pair.result.ratio)
    if ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high:
        return f"{display.factor(ratio)} ({interval}: no difference can be told)"
    return f"{display.factor(ratio)} ({interval or 'no interval'})"


def paired_words(pair: Paired) -> str:
    """ "bf16 sustains 1.83× (1.79–1.87×) the tokens/s of fp32", whose states differ."""
    label = METRICS[pair.result.metric].label if pair.result.metric in METRICS else "rate"
    return f"{pair.result.above} sustains {ratio_words(pair)} the {label} of {pair.result.below}"


def beside_words(pair: Paired) -> str:
    """That one side suffers more from other programs than the other; "" where that was not seen."""
    found = pair.result
    if found.suffers is None or found.beside is None or found.label == "unequal":  # there the fault says it
        return ""
    label = METRICS[found.metric].label if found.metric in METRICS else "rate"
    return (
        f"{found.above} / {found.below}, {label}: one side suffers more from other programs; beside them the ratio is "
        f"{found.beside:.2f}×, and the {found.blocks} calm rounds of {found.all_blocks} count alone"
    )


def standing_words(ratios: Sequence[Paired]) -> str:
    """The states of ratios and rates, with the reason for rates that are not valid."""
    rates = {id(group): group for pair in ratios for group in (pair.group, pair.reference)}.values()
    of_ratio, of_rates = weakest(pair.validity for pair in ratios), weakest(group.validity for group in rates)
    ratio = f"the ratio is {of_ratio}" if len(ratios) == 1 else f"the ratios are {of_ratio}"
    if of_ratio == of_rates:
        return f"{ratio}, and so are the absolute rates"
    reasons = "; ".join(dict.fromkeys(display.clean(group.label, 60) for group in rates if not group.ranked))
    return f"{ratio}, the absolute rates are {of_rates}{f': {reasons}' if reasons else ''}"


def _fault(turns: ByTurns) -> str:
    """Why a ratio is not valid, or provisional; "" where it is valid."""
    if turns.own:
        return short(turns.own[0].code)
    if turns.ratio.label != "level":
        label = "unsteady" if turns.ratio.label == "drift" else turns.ratio.label
        return clause_of(turns.ratio.reason) if turns.ranked else f"{label} ({clause_of(turns.ratio.reason)})"
    return "" if turns.ranked else "no interval"
