"""The ledger: a baseline and the steps after it, all with one workload, and what each step gave and is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twinlens.comparison.difference import workload_hash
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import Comparison, compare, without_ratio
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.foreign_text import in_one_line
from twinlens.spec.workload.arrival import Closed, Lockstep, SingleStream
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.estimator.repeats import inverse, scaled
from twinlens.stats.metrics.definition import HEADLINE, definition_of
from twinlens.stats.paired.slice_rate import Rates
from twinlens.stats.summary.point import quantile_of
from twinlens.units import COUNT

# Of each quantity the first that every step has: a p99 takes more requests than most runs have.
_QUANTITIES = {
    "inference": {
        "latency": ("e2e_latency_s_p99", "e2e_latency_s_p50", "ttft_s_p50"),
        "throughput": ("requests_per_s",),
        "utilisation": ("mbu", "matvec_share", "prefill_mfu"),
        "energy": ("energy_per_request_j",),
    },
    "training": {
        "latency": ("step_s_p50",),
        "throughput": HEADLINE["training"],
        "utilisation": ("mfu", "mfu_own_shapes"),
        "energy": ("energy_per_step_j",),
    },
}
OWN_LOAD = "each step is at its own throughput"
"""Why latencies are not compared where a faster step is also asked for more."""
PER = 1000.0
"""Inferences (or tokens) that a cost is given for: one costs too little to read."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What the money columns need. `per_hour`: of the whole machine, in any currency; `per_month`: inferences (or
    tokens trained on) in a month, over which a step has to pay."""

    per_hour: float | None = None
    per_month: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One entry. `figures`: by quantity (latency, throughput, utilisation, energy, cost per thousand).

    `before`: against the entry above, `baseline`: against the first; both None for the first itself. `repays`: what the
    step saves in a month against the entry above, which is the engineering cost that a month repays.
    """

    side: Side
    figures: Mapping[str, Estimate]
    before: Comparison | None
    baseline: Comparison | None
    repays: Estimate

    @property
    def load(self) -> dict[str, Any]:
        """What asked for work: requests/s where they came by themselves, else how many were under way."""
        point = self.side.spec["point"]
        names = ("rate_per_s", "concurrency", "batch")
        return next(({name: point[name]} for name in names if point.get(name) is not None), {})

    @property
    def fails_fidelity(self) -> bool:
        """Whether a run of it failed its quality check: what it gained is of another product."""
        return any(run.gate is not None and not run.gate.go for run in self.side.group.runs)

    def __json__(self) -> dict[str, Any]:
        return {
            "name": self.side.name,
            "runs": [run.id for run in self.side.runs],
            "ranked": self.side.group.ranked,
            "fails_fidelity": self.fails_fidelity,
            "load": self.load,
            "figures": self.figures,
            "repays_per_month": self.repays,
            "before": self.before,
            "baseline": self.baseline,
        }


@dataclass(frozen=True, slots=True)
class Ledger:
    """Steps in order, the baseline first. `metrics`: which metric stands for each quantity.

    `at_one_load`: whether the same requests came to all steps at the same moments, so that latencies are at one
    throughput and may be compared; of training always. Else no ratio of a latency is given.
    """

    steps: tuple[Step, ...]
    metrics: Mapping[str, str]
    workload: str
    prices: Prices
    at_one_load: bool = True

    def __repr__(self) -> str:
        return in_one_line(f"<Ledger of {', '.join(step.side.name for step in self.steps)}>")

    @property
    def last(self) -> Step:
        """The last step that did not fail its quality check: what all steps together come to."""
        return next((step for step in reversed(self.steps) if not step.fails_fidelity), self.steps[0])

    def __json__(self) -> dict[str, Any]:
        """A plain mapping."""
        return {
            "schema": 1,
            "lens": self.steps[0].side.lens,
            "workload": self.workload,
            "metrics": self.metrics,
            "latencies_compared": self.at_one_load,
            "price_per_hour": self.prices.per_hour,
            "per_month": self.prices.per_month,
            "steps": self.steps,
        }

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return encode(self)


def ledger(sides: Sequence[Side], rates: Mapping[str, Rates] | None = None, prices: Prices | None = None) -> Ledger:
    """The ledger of some sides in the order given. Raises BadInput (TL226) for other than one workload at one load."""
    known = prices or Prices()
    _refuse(sides)
    lens = sides[0].lens
    metrics = {name: _metric(sides, ids) for name, ids in _QUANTITIES[lens].items()}
    figures = [_figures(side, metrics, known) for side in sides]
    steps = [Step(sides[0], figures[0], None, None, Estimate.absent(COUNT, "it is the baseline"))]
    for place in range(1, len(sides)):
        before = _compared(sides[place - 1], sides[place], rates)
        first = before if place == 1 else _compared(sides[0], sides[place], rates)
        repays = _repays(figures[place - 1]["cost"], figures[place]["cost"], known)
        steps.append(Step(sides[place], figures[place], before, first, repays))
    return Ledger(tuple(steps), metrics, workload_hash(sides[0]), known, _comes_by_itself(sides[0]))


def _comes_by_itself(side: Side) -> bool:
    """Whether work comes whatever the system does (open loop, a trace), or is not of requests at all."""
    workload = side.runs[0].spec.workload
    return not isinstance(workload, InferenceWorkload) or not isinstance(
        workload.arrival, Closed | Lockstep | SingleStream
    )


def _compared(a: Side, b: Side, rates: Mapping[str, Rates] | None) -> Comparison:
    """B against A, latencies only where both met the same arrivals: in a closed loop a faster side is asked for more,
    and inference is judged at one throughput."""
    found = compare(a, b, rates)
    if _comes_by_itself(a):
        return found
    return replace(
        found,
        effects=tuple(without_ratio(each, OWN_LOAD) if _is_latency(each.metric) else each for each in found.effects),
    )


def _is_latency(metric: str) -> bool:
    return definition_of(metric).group == "time" and quantile_of(metric) is not None


def _refuse(sides: Sequence[Side]) -> None:
    if len(sides) < 2:
        raise BadInput("a ledger needs a baseline and at least one step; give two run folders or more", code="TL226")
    first = sides[0]
    if first.lens == "collective":
        raise BadInput(
            f"a ledger is of training or of inference, and {first.name} is of exchanges between ranks; compare them "
            "with `twinlens compare`",
            code="TL226",
        )
    for side in sides[1:]:
        if side.lens != first.lens:
            both = f"{first.name} is {first.lens}, {side.name} is {side.lens}"
            raise BadInput(f"a ledger has one lens: {both}; make one for each", code="TL226")
        if workload_hash(side) != workload_hash(first):
            found = compare(first, side).differences
            fields = [each.label for each in found if each.role == "M" or each.aspect == "content"]
            raise BadInput(
                f"a ledger has one workload at one load: {side.name} differs from {first.name} in "
                f"{', '.join(fields[:4]) or 'its workload'}; measure each step with the spec of the baseline",
                code="TL226",
            )


def _metric(sides: Sequence[Side], ids: Sequence[str]) -> str:
    """The first metric that all have; else the first that any has; else the first."""

    def having(name: str) -> int:
        estimates = (side.group.metrics.get(name) for side in sides)
        return sum(estimate is not None and estimate.value is not None for estimate in estimates)

    return next((name for name in ids if having(name) == len(sides)), max(ids, key=having))


def _figures(side: Side, metrics: Mapping[str, str], prices: Prices) -> dict[str, Estimate]:
    absent = Estimate.absent(COUNT, "not computed for these runs")
    figures = {quantity: side.group.metrics.get(name, absent) for quantity, name in metrics.items()}
    return figures | {"cost": _cost(figures["throughput"], prices)}


def _cost(throughput: Estimate, prices: Prices) -> Estimate:
    """The price of a thousand inferences (or tokens) at the sustained rate: price per second over rate."""
    if prices.per_hour is None:
        return Estimate.absent(COUNT, "no price was given")
    return inverse(throughput, PER * prices.per_hour / 3600, COUNT, "price of the machine over its sustained rate")


def _repays(before: Estimate, after: Estimate, prices: Prices) -> Estimate:
    """What the step saves in a month. Without interval: the costs of both sides rest on one price."""
    if before.value is None or after.value is None:
        return Estimate.absent(COUNT, before.reason or after.reason or "no cost is known")
    if prices.per_month is None:
        return Estimate.absent(COUNT, "no volume was given")
    saved = Estimate(before.value - after.value, COUNT, "cost before less cost after", "derived")
    return scaled(saved, prices.per_month / PER, COUNT, "times the volume of a month")
