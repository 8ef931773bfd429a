"""A checked study on one screen: whether it can be measured, how long it takes, and what theory says of each point."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinlens.measurement.preflight.check import Check, Prediction
from twinlens.reporting.display import ABSENT, clean
from twinlens.reporting.load_kind import policy_of
from twinlens.reporting.screen.figures import stacked
from twinlens.reporting.text.fitted import Fitted, FittedTable, shortest
from twinlens.reporting.text.footnote import hanging, left_out
from twinlens.spec.load import dump
from twinlens.spec.point import FROM_LOG
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import CollectiveWorkload, InferenceWorkload
from twinlens.units import show

_TERSE = (8, 5, 3, 1)
_TITLE = "What theory says (modelled, not measured)"
_MORE = "--all: the whole spec with its defaults, and every quantity; --json: as data"


def check_screen(checked: Check) -> RenderableType:
    """At most 24 lines at 80 columns."""
    return Fitted(lambda width: shortest(_choices(checked, width), width))


def check_whole(checked: Check) -> RenderableType:
    """The whole spec, and every quantity of every point."""
    table = Table(title=_TITLE, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for head in ("point", "quantity", "value"):
        table.add_column(head, justify="right" if head == "value" else "left", overflow="fold")
    for point in checked.points:
        name = _name(point.spec)
        if point.spec.lens == "collective":
            table.add_row(name, point.memory, "")
            continue
        for quantity, estimate in point.theory.items():
            table.add_row(name, quantity, show(estimate.value, estimate.unit))
            name = ""
        table.add_row("", "memory needed", show(point.memory_bytes, "bytes"))
        table.add_row("", point.memory, "")
    return Stack(dump(checked.study), f"{_planned(checked)}\n", *_quantiles(checked, 1000), table)


def _choices(checked: Check, width: int) -> Iterator[RenderableType]:
    can = "cannot be measured here" if checked.refusal is not None else "can be measured here"
    for most in _TERSE:
        yield Stack(
            hanging("", f"{clean(checked.study.name, 60)} {can}: {_planned(checked)}.", "bold"),
            *_commands(checked),
            Text(""),
            *_quantiles(checked, most),
            *_theory(checked.points, most, width),
            hanging("", _MORE, "dim"),
        )


def _theory(points: Sequence[Prediction], most: int, width: int) -> Iterator[RenderableType]:
    """A line for each prediction, and the points that have it; of exchanges there is none."""
    alike: dict[tuple[str, ...], list[str]] = {}
    quantities = list(dict.fromkeys(name for point in points for name in point.theory if _is_on_screen(name)))
    for point in points:
        alike.setdefault(_values(point, quantities), []).append(_name(point.spec))
    if not quantities:
        return
    rows = [tuple(map(Text, (_names(names), *values))) for values, names in alike.items()]
    heads = ("", *(name.replace("_", "\n", 1) for name in quantities), "memory\nneeded")
    table = FittedTable(heads, ("left", *("right",) * (len(heads) - 1)), tuple(rows[:most]))
    in_lines = replace(table, heads=tuple(head.replace("\n", " ") for head in heads))
    yield Text(_TITLE, style="bold")
    yield table.table() if table.width <= width else stacked(in_lines)
    yield from left_out(len(rows) - most, "prediction")
    unknown = dict.fromkeys(point.memory for point in points if point.memory_bytes is None)
    yield from (hanging(f"{ABSENT} ", clean(why), "dim") for why in list(unknown)[:1])
    yield Text("")


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


def _quantiles(checked: Check, most: int) -> Iterator[RenderableType]:
    """A line for each rate: how many requests a run has, the quantiles they are enough for, a duration for others."""
    if not checked.requests:
        return
    needed = ", ".join(f"{name} {count}" for name, count in checked.requests[0].needed.items())
    yield hanging("", f"Requests of one run in {checked.study.protocol.duration_s:g} s; at least needed: {needed}", "")
    for at_rate in checked.requests[:most]:
        enough = [name for name, count in at_rate.needed.items() if at_rate.expected >= count]
        short = [
            f"{name} with protocol.duration_s={at_rate.duration_s[name]:g}"
            for name in at_rate.needed
            if name not in enough
        ]
        parts = "; ".join(filter(None, [f"enough for {', '.join(enough)}" if enough else "", *short]))
        yield hanging("  ", f"at {at_rate.rate_per_s:g}/s about {at_rate.expected:.0f}: {parts}", "")
    yield from left_out(len(checked.requests) - most, "rate")
    yield Text("")


def _name(spec: RunSpec) -> str:
    """A point by its precision and what holds its requests together: a batch, or an admission policy."""
    if isinstance(spec.workload, CollectiveWorkload):
        return show(spec.workload.size_bytes, "bytes")
    if spec.lens == "training":
        return spec.point.precision
    policy = policy_of(spec.point.model_dump(exclude_none=True))
    is_served = isinstance(spec.workload, InferenceWorkload) and spec.workload.arrival.kind != "lockstep"
    return ", ".join(filter(None, [spec.point.label, policy or ("" if is_served else f"batch {spec.point.batch}")]))


def _commands(checked: Check) -> Iterator[RenderableType]:
    """The user's own commands that a measurement would start: said before it does."""
    asked = [spec.executor.options.get("command") for spec in checked.study.point_runs()]
    for words in dict.fromkeys(shlex.join(map(str, each)) for each in asked if isinstance(each, list | tuple) and each):
        yield hanging("", f"Measuring it runs, without a shell: {clean(words, 400)}", "")


def _planned(checked: Check) -> str:
    if checked.study.executor.kind == FROM_LOG:
        return f"{checked.runs} run{'s' * (checked.runs != 1)}, as long as the trainer's log goes on"
    time, search = show(checked.expected_s, "s"), checked.study.search
    if search is None:
        return f"{checked.runs} run{'s' * (checked.runs != 1)}, about {time}"
    ways = len(checked.points)
    return f"{ways} search{'es' * (ways != 1)} of at most {search.most_points} runs, at most about {time}"
