"""The judgement of a burn-in: windows and criteria become rulings, and rulings the verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from twinlens.acceptance.counts import (
    Devices,
    by_device,
    check_parts,
    counter_parts,
    exchange_parts,
    failed_rows,
    failed_windows,
    temperature_parts,
    throttled_parts,
)
from twinlens.acceptance.criteria import KINDS, Criterion
from twinlens.acceptance.judgement import Judgement, Ruling, Verdict
from twinlens.acceptance.part import LEVEL, Part, ruling_of
from twinlens.acceptance.rates import (
    against,
    drift_parts,
    fleet_parts,
    last_parts,
    retention,
    retention_parts,
    series_of,
    straggler_parts,
    sustained,
    workloads_of,
)
from twinlens.acceptance.trend import Drift, drift_of
from twinlens.acceptance.window import Asked, Window
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.stats.estimator.rate import poisson_bounds
from twinlens.units import DAY_S, HOUR_S

_SPARE = 0.02  # of the planned time: the last window need not end on the second
_FAULTS = ("checks", "failed-windows", "ecc-uncorrected", "xid")


def judged(
    windows: Sequence[Window], criteria: Sequence[Criterion], asked: Asked, before: Sequence[Window] | None = None
) -> Judgement:
    """Every criterion judged over all windows so far. `before`: the windows of the last acceptance.

    The verdict is reject or quarantine where a criterion that says so is not met; insufficient where one could not be
    judged, or where the test ended before its time; else accept, with notes where there are some.
    """
    windows = sorted(windows, key=lambda each: each.number)
    devices = by_device(windows)
    rulings = tuple(ruling_of(each, list(_parts(windows, devices, each, asked, before))) for each in criteria)
    length = tested_s(windows)
    is_whole = bool(windows) and length >= asked.for_s * (1 - _SPARE) - asked.window_s
    verdict, decided = _verdict(rulings, is_whole)
    drifts = {name: drift_of(series_of(windows, name).settled()) for name in workloads_of(windows)}
    bounds = _bounds(devices, rulings)
    return Judgement(
        verdict, rulings, decided, tuple(_unseen(windows, devices, asked, drifts, bounds)),
        _figures(windows, drifts, before), _marks(windows, rulings), bounds,
    )  # fmt: skip


def tested_s(windows: Sequence[Window]) -> float:
    """Seconds of test time, rests included."""
    return max((each.begin_s + each.seconds for each in windows), default=0.0)


def _parts(
    windows: Sequence[Window], devices: Devices, criterion: Criterion, asked: Asked, before: Sequence[Window] | None
) -> Iterable[Part]:
    if KINDS[criterion.what].counter:
        return counter_parts(devices, criterion, asked)
    if criterion.what == "rate-of-last":
        return last_parts(windows, before, criterion)
    if criterion.what == "all-reduce":
        return exchange_parts(windows, criterion, asked)
    if criterion.what in ("temperature", "throttled"):
        return (temperature_parts if criterion.what == "temperature" else throttled_parts)(devices, criterion)
    judge = {
        "checks": check_parts,
        "failed-windows": failed_windows,
        "failed-rows": failed_rows,
        "rate-of-fleet": fleet_parts,
        "stragglers": straggler_parts,
        "retention": retention_parts,
        "drift": drift_parts,
    }[criterion.what]
    return judge(windows, criterion)


def _verdict(rulings: Sequence[Ruling], is_whole: bool) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict, and the criteria that decided it; "length" where the test ended early."""
    missed = [each for each in rulings if each.standing == "not met"]
    for wanted in ("reject", "quarantine"):
        if those := [each for each in missed if each.criterion.otherwise == wanted]:
            return wanted, _names(those)
    untold = [each for each in rulings if each.standing == "insufficient"]
    if untold or not is_whole or not any(each.standing != "not applicable" for each in rulings):
        return "insufficient", (*(() if is_whole else ("length",)), *_names(untold))
    noted = [*missed, *(each for each in rulings if each.standing == "met with a note")]
    return ("accept with notes", _names(noted)) if noted else ("accept", ())


def _names(rulings: Iterable[Ruling]) -> tuple[str, ...]:
    return tuple(each.criterion.what for each in rulings)


def _figures(
    windows: Sequence[Window], drifts: Mapping[str, Drift], before: Sequence[Window] | None
) -> dict[str, dict[str, Estimate]]:
    ratios = {} if before is None else against(before, windows)
    found = {}
    for name, drift in drifts.items():
        series = series_of(windows, name)
        found[name] = {"rate": sustained(series), "retention": retention(series), "drift": drift.slope}
        found[name] |= {"over_last": ratios[name]} if name in ratios else {}
    return found


def _marks(windows: Sequence[Window], rulings: Sequence[Ruling]) -> dict[int, tuple[str, ...]]:
    """The criteria that speak against a window, by its number."""
    marks: dict[int, list[str]] = defaultdict(list)
    for ruling in rulings:
        if ruling.standing in ("not met", "met with a note", "insufficient"):
            for number in ruling.windows:
                marks[number].append(ruling.criterion.what)
    for window in windows:
        if window.outcome == "failed" and "failed-windows" not in marks[window.number]:
            marks[window.number].append("failed-windows")
    return {number: tuple(marks[number]) for number in sorted(marks) if marks[number]}


def _bounds(devices: Devices, rulings: Sequence[Ruling]) -> dict[str, Estimate]:
    """The most that the rate of faults of a device can be: 3 / (n T) at 95 % where none was seen."""
    hours = _device_hours(devices)
    if not hours:
        return {}
    faults = len({number for each in rulings if each.criterion.what in _FAULTS for number in each.windows})
    return {"faults": fault_rate(faults, hours)}


def fault_rate(faults: int, hours: float) -> Estimate:
    """Faults per device hour, at most `high` with 95 %."""
    _, high = poisson_bounds(faults, 2 * LEVEL - 1)  # one side
    method = "windows with a fault over device hours, upper bound of a Poisson count (3 / (n T) for none)"
    return Estimate(faults / hours, "per hour", method, "measured", 0.0, high / hours, LEVEL, faults)


def _device_hours(devices: Devices) -> float:
    return sum(window.seconds for readings in devices.values() for window, _ in readings) / HOUR_S


def _unseen(
    windows: Sequence[Window],
    devices: Devices,
    asked: Asked,
    drifts: Mapping[str, Drift],
    bounds: Mapping[str, Estimate],
) -> Iterator[Finding]:
    """What a sound verdict of this test leaves open."""
    length = tested_s(windows)
    if length < asked.for_s * (1 - _SPARE) - asked.window_s:
        yield _unseen_of("length", {"hours": length / HOUR_S, "planned_hours": asked.for_s / HOUR_S})
    if "faults" in bounds:
        rate, hours = bounds["faults"], _device_hours(devices)
        numbers = {"faults": rate.n, "device_hours": hours, "devices": len(devices)}
        numbers |= {"hours_between": 1 / rate.high} if rate.high else {}
        yield _unseen_of("faults", numbers)
    seen = {name: drift.visible for name, drift in drifts.items() if drift.visible is not None}
    if seen:
        worst = max(seen, key=lambda name: (seen[name], name))
        yield _unseen_of("drift", {"workload": worst, "visible": seen[worst]})
    elif windows:
        yield _unseen_of("any-drift", {"hours": length / HOUR_S})
    if windows and length < 0.95 * DAY_S:
        yield _unseen_of("day", {"hours": length / HOUR_S})


def _unseen_of(what: str, numbers: Mapping[str, object]) -> Finding:
    return Finding("burnin-unseen", "notes", what, numbers)
