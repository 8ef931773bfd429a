"""A number as a cell: its text, what stands beside it, and why it or its interval is absent."""

from __future__ import annotations

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.document.block import Cell, Tone
from twinlens.reporting.wording.training import IMPOSSIBLE
from twinlens.stats.metrics.definition import METRICS, is_impossible
from twinlens.units import digits

_SHARES = ("slo_attainment", "failed_share")
_ALIKE = "no interval: its runs came to the same share, which does not show how far others may lie apart"
_OPEN, _WHY_OPEN = "no upper bound", "no upper bound: it falls among requests that failed"


def cell_of(metric: str, estimate: Estimate | None, absent: str, tone: Tone = "", *, divisor: float | None = None,
            label: str = "") -> Cell:  # fmt: skip
    """One figure. `absent`: what to say where it has no value.

    `divisor`: of a column in one unit, whose cells have the wider side of the interval beside them in per cent. Without
    it a figure has its own unit, unless the `label` of its line holds that, and its bounds.
    """
    if estimate is None or estimate.value is None:
        return Cell(display.ABSENT, tone, why=absent)
    is_said = estimate.unit.endswith("/s") and estimate.unit in label
    own = display.bare(estimate) if is_said else display.value(estimate)
    text = own if divisor is None else digits(estimate.value / divisor)
    if is_impossible(metric, estimate):
        why = f"{METRICS[metric].heading}: {IMPOSSIBLE}"
        return Cell(text, tone, display.under(estimate), why, "above 100%: no efficiency")
    if estimate.low is None:
        return Cell(text, tone, why="" if estimate.unit == "bytes" else why_bare(estimate))
    if estimate.high is None:
        return Cell(text, tone, _OPEN if divisor is None else "", _WHY_OPEN, _OPEN)
    if divisor is None:
        ends = display.bare_bounds(estimate)
        return Cell(text, tone, ends if estimate.level is not None else f"({ends})")
    if metric in _SHARES:
        ends = share_ends(estimate)
        return Cell(text, tone, share_bounds(estimate), "" if ends else _ALIKE, ends + _kind(estimate) if ends else "")
    if estimate.low == estimate.high:
        return Cell(text, tone, bounds="same in all runs")
    bounds = display.bare_bounds(estimate, divisor=divisor) + _kind(estimate)
    return Cell(text, tone, display.under(estimate), bounds=bounds)


def why_bare(estimate: Estimate) -> str:
    """Why a value has no interval: the reason that was given, or how it was computed."""
    if estimate.no_interval is None and estimate.origin == "derived":
        return "no interval: what it is computed from has none"
    return f"no interval: {display.no_interval(estimate, counted=False)}"


def share_bounds(estimate: Estimate) -> str:
    """The same as `share_ends`, in brackets where it is a range of two runs."""
    ends = share_ends(estimate)
    return f"({ends})" if ends and display.kind(estimate) == "range" else ends


def share_ends(estimate: Estimate) -> str:
    """The interval of a share in per cent, to a tenth: "89.4–99.9"; "" where there is none."""
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return ""
    low, high = (f"{share:.1f}" if (share := 100 * bound) < 99.95 else "100" for bound in (estimate.low, estimate.high))
    return f"{low}–{high}"


def _kind(estimate: Estimate) -> str:
    return {"range": " (range)", "run": " (run)"}.get(display.kind(estimate), "")
