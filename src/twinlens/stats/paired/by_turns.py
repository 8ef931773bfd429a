"""Two groups of runs that took turns: the paired ratio of each rate, from the rows of their runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlens.record.finding import Finding, Validity
from twinlens.record.run import Run
from twinlens.stats.paired.ratio import PairedRatio, paired_ratio
from twinlens.stats.paired.slice_rate import SliceRates, inference_slices, phase_slices, training_slices
from twinlens.stats.serving.looks import looks_s
from twinlens.stats.summary.group import Group
from twinlens.stats.summary.serving import is_served

Rates = Mapping[str, SliceRates]


@dataclass(frozen=True, slots=True)
class ByTurns:
    """The ratio of one rate of two groups. `own`: findings of their runs that make the ratio not valid.

    What disturbed the machine met both sides, and is not among them; other faults are the points' own.
    """

    ratio: PairedRatio
    own: tuple[Finding, ...]

    @property
    def validity(self) -> Validity:
        return "not valid" if self.own else self.ratio.validity

    @property
    def ranked(self) -> bool:
        """Whether it may be compared."""
        return self.validity != "not valid"


def by_turns(
    group: Group,
    reference: Group,
    runs: Mapping[str, Run],
    rates: Mapping[str, Rates],
    names: tuple[str, str] = ("", ""),
    *,
    level: float = 0.95,
) -> tuple[ByTurns, ...]:
    """The ratios of `group` to `reference` over the repeats in which both took turns; none where none did.

    `runs`, `rates`: the runs that were paired and the rates of their slices, by id of the run. `names`: of the two.
    """
    pairings = {id: run.sections.pairing for id, run in runs.items() if run.sections.pairing}
    by_pairing = {pairings[run.run].id: run for run in reference.runs if run.run in rates}
    members = [
        (run, by_pairing[key]) for run in group.runs if run.run in rates and (key := pairings[run.run].id) in by_pairing
    ]
    if not members:
        return ()
    points = [pairings[run.run].points for run, _ in members]
    sides = [run for pair in members for run in pair]
    own = tuple(finding for run in sides for finding in run.disqualified if finding.code != "disturbed")
    metrics = [name for name in rates[members[0][0].run] if all(name in rates[run.run] for run in sides)]
    pairs = {name: [(rates[above.run][name], rates[below.run][name]) for above, below in members] for name in metrics}
    looks = max(len(looks_s(run.spec.protocol)) for run in runs.values())
    return tuple(
        ByTurns(paired_ratio(pairs[name], points, names=(*names, name), level=level, looks=looks), own)
        for name in metrics
    )


def slice_rates(run: Run) -> Rates:
    """The rates of a run's slices, by id of the metric."""
    if run.lens == "training":
        return training_slices(run.steps, run.telemetry)
    return inference_slices(run.requests, run.telemetry, in_lockstep=not is_served(run))


def phase_rates(run: Run) -> Rates:
    """The rates of one phase of requests in each of a run's slices; none of training."""
    return {} if run.lens == "training" else phase_slices(run.requests, run.telemetry, in_lockstep=not is_served(run))
