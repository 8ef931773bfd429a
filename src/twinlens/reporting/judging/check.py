"""Document of a checked study: whether it can be measured, how long it takes, and what theory says of each point."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product

from twinlens.measurement.preflight.check import Check, Prediction
from twinlens.reporting.display import ABSENT, clean
from twinlens.reporting.document.block import DETAIL, Block, Document, Letters, Line, More, Row, Table, cells, row
from twinlens.reporting.judging.tuning import said
from twinlens.reporting.load_kind import policy_of
from twinlens.spec.load import dump
from twinlens.spec.point import FROM_LOG
from twinlens.spec.study import RunSpec
from twinlens.spec.tune import Constraint
from twinlens.spec.workload.workload import CollectiveWorkload, InferenceWorkload
from twinlens.stats.metrics.definition import definition_of
from twinlens.tuning.bound import Bound, bound_of
from twinlens.tuning.tuning import why_not
from twinlens.units import show

_TITLE = "What theory says (modelled, not measured)"
_MORE = "--all: the whole spec with its defaults, and every quantity; --json: as data"
_MOST = 5
"""Rates of a first screen."""
_MOST_CANDIDATES = 200
"""Candidates that are looked at for what cannot run."""


def check_document(checked: Check) -> Document:
    return Document.of("Check", clean(checked.study.name, 60), _blocks(checked), "--all")


def _blocks(checked: Check) -> Iterator[Block]:
    can = "cannot be measured here" if checked.refusal is not None else "can be measured here"
    yield Letters(tuple(dump(checked.study).splitlines()), DETAIL, "The whole spec, with its defaults")
    yield Line(f"{clean(checked.study.name, 60)} {can}: {_planned(checked)}.", is_lead=True)
    yield from map(Line, _commands(checked))
    yield from _tuned(checked)
    yield _quantiles(checked)
    yield from _theory(checked.points)
    yield More(_MORE)


def _tuned(checked: Check) -> Iterator[Block]:
    """The bound of a tuning: what is improved, what may vary, and the candidates that are refused before they cost."""
    if checked.study.tune is None:
        return
    bound, tune = bound_of(checked.study), checked.study.tune
    better = "more" if bound.objective.sign > 0 else "less"
    how = "candidates take turns" if bound.objective.in_turns else "each round of a candidate is a run of its own"
    limits = [_limit(each) for each in tune.constraints]
    yield row("tunes", [f"{bound.objective.label}, {better} is better", f"tier {tune.tier}", *limits, how], apart=True)
    rows = tuple(
        cells((name, said(bound.default.get(name)), ", ".join(map(said, values)), setting.about))
        for name, (setting, values) in bound.space.items()
    )
    yield Table("The space: what a candidate may change.", ("setting", "by default", "tried", "what it does"), rows,
                ("left", "left", "left", "left"), remarks=True, drop=(3,))  # fmt: skip
    yield row("left out", _refused(bound), "dim", rank=3)
    budget = tune.budget
    told = (
        f"{budget.trials} candidates in {budget.wall_h:g} h, then the default and the winner {tune.proof.repeats} times"
    )
    yield row("budget", [told, "run it with `twinlens tune`"], rank=2)


def _limit(limit: Constraint) -> str:
    metric = definition_of(limit.metric)
    value = show(limit.limit, metric.unit) if metric.unit else f"{limit.limit:g}"
    return f"{metric.label} at {'most' if limit.at_most is not None else 'least'} {value}"


def _refused(bound: Bound) -> list[str]:
    """How many candidates cannot run here, and the commonest reason."""
    names = list(bound.space)
    every = islice(product(*(bound.space[name][1] for name in names)), _MOST_CANDIDATES)
    reasons = [why_not(bound, dict(zip(names, values, strict=True))) for values in every]
    found = Counter(filter(None, reasons)).most_common(1)
    return (
        [f"{sum(map(bool, reasons))} of {len(reasons)} before they start: {clean(found[0][0], 160)}"] if found else []
    )


def _theory(points: Sequence[Prediction]) -> Iterator[Block]:
    """A line for each prediction, and the points that have it; of exchanges there is none. Then each quantity."""
    alike: dict[tuple[str, ...], list[str]] = {}
    quantities = list(dict.fromkeys(name for point in points for name in point.theory if _is_on_screen(name)))
    for point in points:
        alike.setdefault(_values(point, quantities), []).append(_name(point.spec))
    if quantities:
        rows = tuple(cells((_names(names), *values)) for values, names in alike.items())
        heads = ("", *(name.replace("_", "\n", 1) for name in quantities), "memory\nneeded")
        yield Line(_TITLE, "strong")
        yield Table(f"{_TITLE}.", heads, rows, narrow=rows, shrinks=True)
        unknown = dict.fromkeys(clean(point.memory) for point in points if point.memory_bytes is None)
        yield row(ABSENT, list(unknown)[:1], "dim", rank=1)
    every = [cells((_name(point.spec), name, show(each.value, each.unit)))
             for point in points for name, each in point.theory.items()]  # fmt: skip
    yield Table("Each quantity.", ("point", "quantity", "value"), tuple(every), ("left", "left", "right"), rank=DETAIL)
    yield row("memory", [f"{_name(each.spec)}: {clean(each.memory, 400)}" for each in points], rank=DETAIL, apart=True)


def _values(point: Prediction, quantities: Sequence[str]) -> tuple[str, ...]:
    known = [point.theory.get(name) for name in quantities]
    shown = [ABSENT if each is None or each.value is None else show(each.value, each.unit) for each in known]
    return *shown, ABSENT if point.memory_bytes is None else show(point.memory_bytes, "bytes")


def _is_on_screen(quantity: str) -> bool:
    """FLOP and bytes by the way that a run is judged by, not by each way of counting."""
    return quantity.endswith(("_flop", "_bytes"))


def _names(names: Sequence[str]) -> str:
    """ "bf16 at 2/s and 2 more"."""
    first, *others = dict.fromkeys(names)
    return f"{first} and {len(others)} more" if others else first


def _quantiles(checked: Check) -> Row:
    """For each rate: how many requests a run has, the quantiles they are enough for, a duration for others."""
    told = []
    if checked.requests:
        needed = ", ".join(f"{name} {count}" for name, count in checked.requests[0].needed.items())
        told.append(f"of one run in {checked.study.protocol.duration_s:g} s; at least needed: {needed}")
    for at_rate in checked.requests:
        enough = [name for name, count in at_rate.needed.items() if at_rate.expected >= count]
        short = [
            f"{name} with protocol.duration_s={at_rate.duration_s[name]:g}"
            for name in at_rate.needed
            if name not in enough
        ]
        parts = "; ".join(filter(None, [f"enough for {', '.join(enough)}" if enough else "", *short]))
        told.append(f"at {at_rate.rate_per_s:g}/s about {at_rate.expected:.0f}: {parts}")
    return row("requests", told, apart=True, first=1 + _MOST)


def _name(spec: RunSpec) -> str:
    """A point by its precision and what holds its requests together: a batch, or an admission policy."""
    if isinstance(spec.workload, CollectiveWorkload):
        return show(spec.workload.size_bytes, "bytes")
    if spec.lens == "training":
        return spec.point.precision
    policy = policy_of(spec.point.model_dump(exclude_none=True))
    is_served = isinstance(spec.workload, InferenceWorkload) and spec.workload.arrival.kind != "lockstep"
    return ", ".join(filter(None, [spec.point.label, policy or ("" if is_served else f"batch {spec.point.batch}")]))


def _commands(checked: Check) -> Iterator[str]:
    """The user's own commands that a measurement would start: said before it does."""
    asked = [spec.executor.options.get("command") for spec in checked.study.point_runs()]
    for words in dict.fromkeys(shlex.join(map(str, each)) for each in asked if isinstance(each, list | tuple) and each):
        yield f"Measuring it runs, without a shell: {clean(words, 400)}"


def _planned(checked: Check) -> str:
    if checked.study.tune is not None:
        return f"a tuning of at most {checked.study.tune.budget.wall_h:g} h, and its proof after it"
    if checked.study.executor.kind == FROM_LOG:
        return f"{checked.runs} run{'s' * (checked.runs != 1)}, as long as the trainer's log goes on"
    time, search = show(checked.expected_s, "s"), checked.study.search
    if search is None:
        return f"{checked.runs} run{'s' * (checked.runs != 1)}, about {time}"
    ways = len(checked.points)
    return f"{ways} search{'es' * (ways != 1)} of at most {search.most_points} runs, at most about {time}"
