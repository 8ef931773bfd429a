"""Criteria of counts: counters of devices, throttling, temperature, results that differ, failures and all-reduce."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from twinlens.acceptance.criteria import KINDS, Criterion
from twinlens.acceptance.part import LEVEL, Part, lacking, met, not_asked, standing_of, unit_of
from twinlens.acceptance.rates import mean_of_logs
from twinlens.acceptance.window import Asked, DeviceWindow, Window
from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.rate import poisson_bounds
from twinlens.units import COUNT, HOUR_S, RATIO

_QUARTERS, _QUARTERS_FROM_S = 4, 4 * HOUR_S
_RAMP_EVENTS, _RAMP_ERRORS = 6, 2.58
_UNREAD = 0.1  # of the windows: a counter that was missing in more of them makes what it shows a note

Readings = list[tuple[Window, DeviceWindow]]
Devices = Mapping[str, Readings]


def by_device(windows: Sequence[Window]) -> dict[str, Readings]:
    """The windows of each device in order, by its name."""
    found: dict[str, Readings] = defaultdict(list)
    for window in windows:
        for device in window.devices:
            found[device.device].append((window, device))
    return {name: found[name] for name in sorted(found)}


def counter_parts(devices: Devices, criterion: Criterion, asked: Asked) -> Iterator[Part]:
    """A counter of each device: totals by how much they rose, states by how far they fell since the start."""
    name = KINDS[criterion.what].counter
    for device, readings in _with(devices, name).items():
        read = [(window, each.counters[name]) for window, each in readings if name in each.counters]
        if not read:
            yield lacking(criterion, _why_unread(readings, name), device=device, about=device)
            continue
        start = asked.counters.get(device, {}).get(name)
        is_state = name in ("pcie_width", "pcie_generation")
        part = _state(criterion, device, read, start) if is_state else _total(criterion, device, read, start)
        yield _noted(part, 1 - len(read) / len(readings))
    yield from _nothing(devices, criterion, name)


def _with(devices: Devices, name: str) -> dict[str, Readings]:
    """The readings of each device whose kind has what is named."""
    return {each: devices[each] for each in devices if not all(name in device.has_not for _, device in devices[each])}


def _nothing(devices: Devices, criterion: Criterion, name: str) -> Iterator[Part]:
    """Why there is no device to judge, where there is none."""
    if not devices:
        yield lacking(criterion, "no window says which devices it ran on")
    elif not _with(devices, name):
        yield not_asked(criterion, "no device here has one")


def _why_unread(readings: Readings, name: str) -> str:
    return next((each.missing[name] for _, each in readings if name in each.missing), "it was not read")


def _noted(part: Part, unread: float) -> Part:
    """The same as a note where it was not read in more than a tenth of the windows."""
    if unread <= _UNREAD or part.standing != "met":
        return part
    numbers = dict(part.numbers) | {"unread": unread}
    return Part("met with a note", part.value, part.about, part.device, part.workload, part.windows, numbers)


def _state(criterion: Criterion, device: str, read: list[tuple[Window, int]], start: int | None) -> Part:
    """Lanes or generations lost. Idle links may fall to save power, so the start is the higher of two readings."""
    first = max(read[0][1], start if start is not None else read[0][1])
    lowest = min(value for _, value in read)
    value = Estimate(float(first - lowest), COUNT, "at the start less the lowest reading", "measured", n=len(read))
    windows = tuple(window.number for window, each in read if first - each > criterion.limit)
    numbers = {"first": first, "lowest": lowest}
    return Part(met(not windows), value, device, device, windows=windows, numbers=numbers)


def _total(criterion: Criterion, device: str, read: list[tuple[Window, int]], start: int | None) -> Part:
    """How much a total rose, or how fast in the worst quarter of the test, and whether it rises ever faster."""
    before = [read[0][1] if start is None else start, *(each for _, each in read[:-1])]
    rises = [(window, each - last if each >= last else each) for (window, each), last in zip(read, before, strict=True)]
    total, windows = sum(rise for _, rise in rises), tuple(window.number for window, rise in rises if rise)
    numbers = {"total": total, "hours": sum(window.seconds for window, _ in rises) / HOUR_S}
    if criterion.unit == COUNT:
        value = Estimate(float(total), COUNT, "rise of the counter since the start", "measured", n=len(read))
        return Part(met(total <= criterion.limit), value, device, device, windows=windows, numbers=numbers)
    value = worst_rate(rises)
    standing = standing_of(criterion, value)
    is_low = value.value is not None and value.value <= criterion.limit
    if standing == "insufficient" and is_low:  # few events: the test is too short to bound their rate by the limit
        standing = "met with a note"
    if standing == "met" and _rises(rises):
        standing, numbers = "met with a note", numbers | {"ramp": True}
    elif _rises(rises):
        numbers |= {"ramp": True}
    return Part(standing, value, device, device, windows=windows, numbers=numbers)


def worst_rate(rises: list[tuple[Window, int]]) -> Estimate:
    """Events per hour of the worst quarter of the test, of all of it below four hours, with its Poisson interval."""
    begin, end = rises[0][0].begin_s, rises[-1][0].begin_s + rises[-1][0].seconds
    parts = _QUARTERS if end - begin >= _QUARTERS_FROM_S else 1
    counts, seconds = np.zeros(parts), np.zeros(parts)
    for window, rise in rises:
        place = min(parts - 1, int((window.begin_s - begin) / (end - begin) * parts))
        counts[place] += rise
        seconds[place] += window.seconds
    rates = [(count / time * HOUR_S, int(count), time) for count, time in zip(counts, seconds, strict=True) if time > 0]
    rate, events, time = max(rates)
    low, high = poisson_bounds(events, 1 - (1 - LEVEL) / parts)
    of = "the worst quarter of the test" if parts > 1 else "the test"
    method = f"events per hour of {of}, Poisson interval"
    hours = float(time) / HOUR_S
    return Estimate(float(rate), "per hour", method, "measured", low / hours, high / hours, LEVEL, events)


def _rises(rises: list[tuple[Window, int]]) -> bool:
    """Whether events come ever faster: their mean time is later than a steady rate makes it (Laplace's test, 99 %)."""
    events = sum(rise for _, rise in rises)
    if events < _RAMP_EVENTS:
        return False
    spent = np.cumsum([window.seconds for window, _ in rises])
    mean = float(sum(at * rise for at, (_, rise) in zip(spent, rises, strict=True))) / events / float(spent[-1])
    clusters = sum(1 for _, rise in rises if rise)  # events of one window may be one fault
    return (mean - 0.5) * math.sqrt(12 * clusters) > _RAMP_ERRORS


def throttled_parts(devices: Devices, criterion: Criterion) -> Iterator[Part]:
    """The share of the time in which each device was slowed down, by its most frequent reason that is not expected."""
    for device, readings in _with(devices, "throttled").items():
        read = [(window, each) for window, each in readings if "throttled" not in each.missing]
        if not read:
            yield lacking(criterion, _why_unread(readings, "throttled"), device=device, about=device)
            continue
        spent: Counter[str] = Counter()
        for window, each in read:
            spent.update({reason: share * window.seconds for reason, share in each.throttled.items()})
        total = sum(window.seconds for window, _ in read)
        unexpected = {reason: each / total for reason, each in spent.items() if reason not in criterion.apart_from}
        reason, share = max(unexpected.items(), key=lambda each: (each[1], each[0]), default=("", 0.0))
        is_met = share <= criterion.limit
        slowed = () if is_met else tuple(window.number for window, each in read if each.throttled.get(reason, 0.0) > 0)
        value = Estimate(share, RATIO, "share of the time, of the most frequent reason", "measured", n=len(read))
        part = Part(met(is_met), value, device, device, windows=slowed, numbers={"reason": reason})
        yield _noted(part, 1 - len(read) / len(readings))
    yield from _nothing(devices, criterion, "throttled")


def temperature_parts(devices: Devices, criterion: Criterion) -> Iterator[Part]:
    """The highest temperature of each device."""
    for device, readings in _with(devices, "temperature").items():
        read = [(window, each.temperature_c) for window, each in readings if each.temperature_c is not None]
        if not read:
            yield lacking(criterion, _why_unread(readings, "temperature"), device=device, about=device)
            continue
        hot = tuple(window.number for window, each in read if each > criterion.limit)
        value = Estimate(max(each for _, each in read), "°C", "highest reading", "measured", n=len(read))
        part = Part(met(not hot), value, device, device, windows=hot)
        yield _noted(part, 1 - len(read) / len(readings))
    yield from _nothing(devices, criterion, "temperature")


# Correct under load: the same digests in every window, and on every device of one kind.


def check_parts(windows: Sequence[Window], criterion: Criterion) -> Iterator[Part]:
    """One part for each check of a workload, or of a kind of device; what most windows have is taken for right."""
    seen: dict[tuple[str, str, str], list[tuple[str, int, str]]] = defaultdict(list)
    for window in windows:
        for name, digest in window.checks.items():
            seen[(name, window.workload, "")].append((digest, window.number, ""))
        for device in window.devices:
            kind = device.kind or device.device
            for name, digest in device.checks.items():
                seen[(name, "", kind)].append((digest, window.number, device.device))
    if not seen:
        yield lacking(criterion, "no window has a check of its results")
    for (name, workload, kind), digests in sorted(seen.items()):
        yield _check(criterion, name, workload, kind, digests)


def _check(criterion: Criterion, name: str, workload: str, kind: str, digests: list[tuple[str, int, str]]) -> Part:
    counted = Counter(digest for digest, _, _ in digests)
    usual = max(counted, key=lambda digest: (counted[digest], digest))
    odd = [(number, device) for digest, number, device in digests if digest != usual]
    windows = tuple(sorted({number for number, _ in odd}))
    devices = Counter(device for _, device in odd if device)
    value = Estimate(float(len(windows)), COUNT, "windows that differ from most", "measured", n=len(digests))
    if len(digests) < 2:
        return Part("insufficient", Estimate.absent(COUNT, f"{name}: checked once, so there is nothing to compare"))
    is_tied = len(counted) > 1 and counted.most_common(2)[0][1] == counted.most_common(2)[1][1]
    numbers = {"check": name, "digests": len(counted), "compared": len(digests), "tied": is_tied, "kind": kind}
    numbers |= {"windows": list(windows[:8]), "odd_devices": sorted(devices) or None}
    device = devices.most_common(1)[0][0] if devices else ""
    return Part(met(len(windows) <= criterion.limit), value, name, device, workload, windows, numbers)


# What failed, and what took longer than its fit.


def failed_windows(windows: Sequence[Window], criterion: Criterion) -> Iterator[Part]:
    """Windows that could not be measured."""
    failed = [each for each in windows if each.outcome == "failed"]
    value = Estimate(float(len(failed)), COUNT, "windows that failed", "measured", n=len(windows))
    numbers = {"first_why": failed[0].why} if failed else {}
    where, workload = tuple(each.number for each in failed), failed[0].workload if failed else ""
    if windows:
        yield Part(met(len(failed) <= criterion.limit), value, workload, "", workload, where, numbers)


def failed_rows(windows: Sequence[Window], criterion: Criterion) -> Iterator[Part]:
    """Steps or requests that failed in windows that were measured."""
    failed = [each for each in windows if each.failed]
    total, rows = sum(each.failed for each in failed), sum(each.work + each.failed for each in windows)
    value = Estimate(float(total), COUNT, "steps or requests that failed", "measured", n=rows)
    workload = max(failed, key=lambda each: each.failed).workload if failed else ""
    where = tuple(each.number for each in failed)
    if windows:
        yield Part(met(total <= criterion.limit), value, workload, "", workload, where, {"rows": rows})


def exchange_parts(windows: Sequence[Window], criterion: Criterion, asked: Asked) -> Iterator[Part]:
    """The time of an all-reduce over that of the fit before the first window, for each size."""
    if len(asked.devices) < 2:
        yield not_asked(criterion, "there is one device")
        return
    fit = asked.fit
    times: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for window in windows:
        for each in window.exchanges:
            times[each.size_bytes].append((window.number, each.seconds))
    if fit is None or not times:
        what = "no fit was made before the first window" if fit is None else "no window measured one"
        yield lacking(criterion, f"of all-reduce: {what}")
        return
    level = 1 - (1 - LEVEL) / len(times)
    for size, measured in sorted(times.items()):
        expected = fit.latency_s + size / fit.bytes_per_s
        logs = np.log([seconds / expected for _, seconds in measured])
        value = mean_of_logs(logs, unit_of(criterion), level, "geometric mean of time over the fit")
        slow = tuple(number for number, seconds in measured if seconds > criterion.limit * expected)
        standing = standing_of(criterion, value)
        yield Part(standing, value, windows=slow if standing != "met" else (), numbers={"size_bytes": size})
