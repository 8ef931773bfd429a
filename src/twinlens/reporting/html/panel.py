"""The two panels that open a report: of each lens a picture of its rate, what binds it, and one plain sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Validity
from twinlens.reporting import display
from twinlens.reporting.html.diagnosed import Diagnosed
from twinlens.reporting.view import LENSES, Entry, View, headline
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import METRICS

_MOST = 5
"""Points of a picture; a table below has all."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One point: its value and interval in words, and where they lie in per cent of the width."""

    name: str
    precision: str
    value: str
    interval: str
    validity: Validity
    width: str
    low: str
    span: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One lens. `head`: what is drawn; `of`: the model and the machine; `more`: points that are in the table alone."""

    lens: Lens
    head: str
    of: str
    bars: tuple[Bar, ...]
    more: int
    binds: str
    sentence: str


def panels(
    view: View, said: Mapping[str, str], diagnosed: Mapping[Lens, tuple[Sequence[Diagnosed], Sequence[str]]]
) -> tuple[Panel, ...]:
    """A panel for each lens that was measured, training first; never one for both. `said`: a sentence of each lens."""
    return tuple(
        _panel(lens.lens, lens.parts[0], len(lens.entries), said.get(lens.lens, ""), diagnosed[lens.lens][0])
        for lens in sorted(view.lenses, key=lambda each: LENSES.index(each.lens))
        if lens.entries
    )


def _panel(lens: Lens, entries: Sequence[Entry], points: int, said: str, diagnosed: Sequence[Diagnosed]) -> Panel:
    ordered = sorted(entries, key=lambda each: not each.group.ranked)
    known = [
        (each, pair) for each in ordered if (pair := headline(each.group)) is not None and pair[1].value is not None
    ]
    metric = known[0][1][0] if known else ""
    shown = [(each, pair[1]) for each, pair in known if pair[0] == metric][:_MOST]
    most = max((end for _, estimate in shown for end in (estimate.value, estimate.high) if end), default=1.0)
    lead = shown[0][0] if shown else ordered[0]
    binds = next((each for each in diagnosed if each.name == lead.name), None)
    machine = lead.group.machine
    of = " · ".join([lead.group.model, *([machine.name] if machine else [])])
    return Panel(
        lens,
        METRICS[metric].label if metric else "No rate was measured",
        display.clean(of, 100),
        tuple(_bar(each, estimate, most) for each, estimate in shown),
        points - len(shown),
        "" if binds is None else f"{binds.name}: {binds.verdict}",
        said,
    )


def _bar(entry: Entry, estimate: Estimate, most: float) -> Bar:
    value = float(estimate.value or 0.0)
    low, high = (value if end is None else float(end) for end in (estimate.low, estimate.high))
    return Bar(
        display.clean(entry.name, 60),
        entry.precision,
        display.value(estimate),
        display.bare_bounds(estimate) or "no interval",
        entry.group.validity,
        *(f"{100 * max(0.0, each) / most:.2f}" for each in (value, low, high - low)),
    )
