"""Criteria of rates: what was sustained, what is left of the best part, drift, and devices beside each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinlens.acceptance.criteria import Criterion
from twinlens.acceptance.judgement import Standing
from twinlens.acceptance.part import LEVEL, Part, lacking, not_asked, standing_of, unit_of
from twinlens.acceptance.trend import Floats, Series, drift_of, unexplained
from twinlens.acceptance.window import Window
from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.dependence import careful_time, slow_time
from twinlens.stats.estimator.interval import reach, t_quantile
from twinlens.stats.estimator.ratio import ratio
from twinlens.units import DAY_S, RATIO

_FEWEST_WINDOWS = 20
_PARTS = ((100, 10), (25, 5))  # from so many windows on, the test is seen in so many parts
_LEAST_SCALE = (
    0.005  # devices that differ by less than 2 % of four of these are no stragglers, however alike others are
)
_FEWEST_DEVICES = 4


def sound(windows: Sequence[Window], workload: str) -> list[Window]:
    """The windows of one workload that have a rate, in order."""
    return [each for each in windows if each.workload == workload and each.outcome == "ok" and each.rate_per_s]


def workloads_of(windows: Sequence[Window]) -> tuple[str, ...]:
    """The workloads that have windows, by name."""
    return tuple(sorted({each.workload for each in windows}))


def series_of(windows: Sequence[Window], workload: str) -> Series:
    """Rates of one workload, with the highest temperature of any device in each window."""
    kept = sound(windows, workload)
    heat = [max((d.temperature_c for d in w.devices if d.temperature_c is not None), default=math.nan) for w in kept]
    return Series(
        np.array([w.begin_s + w.seconds / 2 for w in kept]),
        np.array([float(w.rate_per_s or math.nan) for w in kept]),
        np.array(heat, dtype=np.float64),
        np.array([w.turn for w in kept], dtype=np.int64),
    )


def sustained(series: Series, level: float = LEVEL) -> Estimate:
    """The geometric mean of the rates of settled windows, with a t interval for dependent windows."""
    settled = series.settled()
    if not settled.rate.size:
        return Estimate.absent("per s", "no window has a rate")
    return mean_of_logs(np.log(settled.rate), "per s", level, "geometric mean of settled windows")


def mean_of_logs(logs: Floats, unit: str, level: float, method: str) -> Estimate:
    value = math.exp(float(logs.mean()))
    if logs.size < _FEWEST_WINDOWS:
        why = f"an interval needs {_FEWEST_WINDOWS} settled windows"
        return Estimate(value, unit, method, "derived", n=logs.size, no_interval=why, seen=f"there are {logs.size}")
    found = reach(logs, level, max(careful_time(logs), slow_time(logs)))
    if found.independent < 2:
        return Estimate(value, unit, method, "derived", n=1, no_interval="windows are all alike or all one trend")
    low, high = value * math.exp(-found.below), value * math.exp(found.above)
    return Estimate(value, unit, f"{method}, t interval", "derived", low, high, level, int(found.independent))


def retention(series: Series, level: float = LEVEL) -> Estimate:
    """The rate of the last part over that of the best part before it; parts are a tenth of the windows (a fifth below
    100). The interval is that of all comparisons together (Bonferroni), so the choice of the best costs nothing; the
    noise is what a line, a day and the temperature leave of log rate."""
    n = series.rate.size
    parts = next((parts for least, parts in _PARTS if n >= least), 0)
    if not parts:
        least = _PARTS[-1][0]
        return Estimate.absent(RATIO, f"retention needs {least} windows", seen=f"there are {n}")
    pieces = np.array_split(np.log(series.rate), parts)
    means = np.array([piece.mean() for piece in pieces])
    noise = unexplained(series)
    tau = min(max(careful_time(noise), slow_time(noise)), 0.9 * n / parts)
    error = math.sqrt(2 * float(noise.var()) / (1 - tau / n) * tau * parts / n)
    freedom = max(2.0, n / tau - parts)
    reached = t_quantile(1 - (1 - level) / (parts - 1), freedom) * error
    change = float(means[-1] - means[:-1].max())
    method = f"last of {parts} parts over the best before it, intervals of all comparisons together"
    low, high = math.exp(change - reached), math.exp(change + reached)
    return Estimate(math.exp(change), RATIO, method, "derived", low, high, level, int(n / tau))


def retention_parts(windows: Sequence[Window], criterion: Criterion) -> Iterator[Part]:
    """The retention of each workload."""
    for workload in workloads_of(windows):
        value = retention(series_of(windows, workload))
        standing = standing_of(criterion, value)
        yield Part(
            standing, value, workload, workload=workload, windows=_last(windows, workload, standing == "not met")
        )


def _last(windows: Sequence[Window], workload: str, is_wanted: bool) -> tuple[int, ...]:
    kept = sound(windows, workload)
    return tuple(each.number for each in kept[-max(1, len(kept) // 10) :]) if is_wanted else ()


def drift_parts(windows: Sequence[Window], criterion: Criterion) -> Iterator[Part]:
    """The drift of each workload, whose intervals hold together; met where all of one is within the limit either way.

    A slope that is beyond the limit and that temperature or a day explains is a note. Without a temperature, a test of
    under a day cannot tell a drift from a day's cycle.
    """
    names = workloads_of(windows)
    for workload in names:
        series = series_of(windows, workload).settled()
        found = drift_of(series, 1 - (1 - LEVEL) / len(names))
        slope, limit = found.slope, criterion.limit
        numbers: dict[str, Any] = {"explained": found.explained, "visible": found.visible, "plain": found.plain.value}
        numbers |= _heat(series)
        if slope.value is None:
            yield Part("insufficient", slope, workload, workload=workload, numbers=numbers)
            continue
        is_short = series.time_s[-1] - series.time_s[0] < 0.95 * DAY_S
        standing = _of_drift(slope, limit)
        if standing == "not met" and is_short and not np.isfinite(series.temperature_c).all():
            standing, numbers = "insufficient", {**numbers, "unknown": "day"}
        if standing == "met" and found.explained and _of_drift(found.plain, limit) == "not met":
            standing, numbers = "met with a note", {**numbers, "is_explained": True}
        yield Part(standing, slope, workload, workload=workload, numbers=numbers)


def _of_drift(slope: Estimate, limit: float) -> Standing:
    """As `standing_of`, of a change that may go either way."""
    if slope.value is None or slope.low is None or slope.high is None:
        return "insufficient"
    if slope.low > limit or slope.high < -limit:
        return "not met"
    if -limit <= slope.low and slope.high <= limit:
        return "met"
    is_fine = abs(slope.value) <= limit and (slope.high - slope.low) / 2 <= limit
    return "met with a note" if is_fine else "insufficient"


def _heat(series: Series) -> dict[str, float]:
    """How far the mean temperature of the last tenth is above that of the first, where it was read."""
    heat = series.temperature_c
    if heat.size < 10 or not np.isfinite(heat).all():
        return {}
    tenth = heat.size // 10
    return {"rise_c": float(heat[-tenth:].mean() - heat[:tenth].mean())}


def _beside(windows: Sequence[Window], workload: str) -> tuple[list[str], NDArray[np.float64]]:
    """Devices that have rates of their own in this workload, by name, and log rate of each less the median of all.

    Shapes: [devices], [windows, devices]; windows that lack a device are left out.
    """
    rates = [{d.device: d.rate for d in w.devices if d.rate} for w in sound(windows, workload)]
    names = sorted({name for each in rates for name in each})
    rows = [[math.log(float(each[name] or math.nan)) for name in names] for each in rates if len(each) == len(names)]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    return names, table - np.median(table, axis=1, keepdims=True) if table.size else table


def fleet_parts(windows: Sequence[Window], criterion: Criterion) -> Iterator[Part]:
    """The sustained rate of each device over the median of all, window by window; intervals of all hold together."""
    tables = {workload: _beside(windows, workload) for workload in workloads_of(windows)}
    tables = {workload: table for workload, table in tables.items() if len(table[0]) > 1}
    if not tables:
        yield not_asked(criterion, "no workload is divided among several devices")
        return
    level = 1 - (1 - LEVEL) / sum(len(names) for names, _ in tables.values())
    for workload, (names, table) in tables.items():
        for place, device in enumerate(names):
            value = mean_of_logs(table[:, place], RATIO, level, "geometric mean over the median of all devices")
            if not table.shape[0]:
                yield lacking(criterion, "no window has rates of all devices", device=device, workload=workload)
                continue
            standing = standing_of(criterion, value)
            yield Part(standing, value, device, device, workload, numbers={"workload": workload})


def straggler_parts(windows: Sequence[Window], criterion: Criterion) -> Iterator[Part]:
    """How far each device is below the median, in robust standard deviations: 1.4826 times the median absolute
    deviation of all devices, and no less than half a per cent."""
    is_told = False
    for workload in workloads_of(windows):
        names, table = _beside(windows, workload)
        if len(names) < _FEWEST_DEVICES or not table.shape[0]:
            continue
        is_told = True
        means = table.mean(axis=0)
        below = float(np.median(means)) - means
        scale = max(1.4826 * float(np.median(np.abs(below))), _LEAST_SCALE)
        for place, device in enumerate(names):
            z = float(below[place]) / scale
            method = "below the median of all devices, over 1.4826 MAD (at least 0.5 %)"
            value = Estimate(z, unit_of(criterion), method, "derived", n=table.shape[0])
            numbers = {"workload": workload, "ratio": math.exp(-float(below[place]))}
            yield Part("met" if z <= criterion.limit else "not met", value, device, device, workload, numbers=numbers)
    if not is_told:
        yield not_asked(criterion, f"stragglers are told from {_FEWEST_DEVICES} devices with rates of their own on")


# Against the last acceptance.


def against(before: Sequence[Window], now: Sequence[Window]) -> dict[str, Estimate]:
    """Sustained rate now over that of an earlier burn-in, for each workload that both have: 1 for a machine that did
    not drift."""
    both = sorted({*workloads_of(now)} & {*workloads_of(before)})
    return {name: ratio(sustained(series_of(now, name)), sustained(series_of(before, name))) for name in both}


def last_parts(windows: Sequence[Window], before: Sequence[Window] | None, criterion: Criterion) -> Iterator[Part]:
    """The ratio of each workload to the last acceptance."""
    if before is None:
        yield not_asked(criterion, "no last acceptance was given")
        return
    ratios = against(before, windows)
    if not ratios:
        yield lacking(criterion, "the last acceptance ran none of these workloads")
    for workload, value in ratios.items():
        yield Part(standing_of(criterion, value), value, workload, workload=workload)
