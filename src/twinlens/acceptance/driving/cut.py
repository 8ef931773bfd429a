"""A turn cut into windows: its rows, telemetry, counters and digests, by the time at which they happened.

A pure function of the turn's folder, so that a turn that was killed gives the windows that it had whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from twinlens.acceptance.driving.counters import PROCESSOR, Reading
from twinlens.acceptance.driving.device_figures import figures, ranks_of
from twinlens.acceptance.driving.journal import PRODUCTS_FILE, Read, read_counters, read_lines
from twinlens.acceptance.driving.repeated_work import answer_digests, loss_digests
from twinlens.acceptance.window import DeviceWindow, Exchange, Window
from twinlens.record.run import Run
from twinlens.record.store import find_runs, read_record
from twinlens.spec.workload.workload import CollectiveWorkload

TURN_FILE, FAILED_FILE = "turn.json", "failed.jsonl"
_NS = 1e9


def windows_of(turn: Path, window_s: float, first: int) -> tuple[Window, ...]:
    """The windows of one turn, numbered from `first`. Of a turn that ended whole, one at least; of one that was killed
    or interrupted those that were whole; of one that failed those, and one that says so. Raises BadInput (TL205,
    TL220) for a folder that cannot be read."""
    if not (turn / TURN_FILE).exists() or not any(turn.glob("*/run.json")):
        return ()
    about, run = read_record(turn / TURN_FILE), find_runs(turn)[-1]
    reads = read_counters(turn)
    rows = _Rows.of(run)
    count = int(rows.end_s // window_s)
    seconds = window_s
    if not count and run.is_finished and rows.end_s > 0:
        count, seconds = 1, rows.end_s
    opened_s = next((each.since_s - each.measuring_s for each in reads if each.measuring_s is not None), 0.0)
    begin_s, begun = float(about["begin_s"]) + opened_s, _time_of(run.started_utc)
    edges = np.arange(count + 1) * seconds
    found = [
        Window(
            number=first + place,
            workload=run.spec.name,
            lens=run.lens,
            turn=int(about["turn"]),
            begin_s=begin_s + float(low),
            at_utc=_said(begun + timedelta(seconds=opened_s + float(low))),
            seconds=float(seconds),
            work=rows.ended(low, high),
            rate_per_s=rows.rate(low, high),
            failed=rows.failed_in(low, high),
            devices=_devices(run, reads, low, high),
            exchanges=_exchanges(run, rows, low, high),
        )
        for place, (low, high) in enumerate(pairwise(edges))
    ]
    found = _with_checks(found, edges, run, turn)
    return (*found, *_failures(run, turn, about, begin_s + float(edges[-1]), first + len(found)))


class _Rows:
    """Begin and end of each row in seconds of the run, and whether it failed."""

    def __init__(self, begin_s: np.ndarray, end_s: np.ndarray, failed: np.ndarray) -> None:
        self.begin, self.end, self.failed = begin_s, end_s, failed
        self.end_s = float(end_s.max()) if end_s.size else 0.0

    @classmethod
    def of(cls, run: Run) -> _Rows:
        if run.lens == "training":
            steps = run.steps.where(run.steps.kind == "step")
            return cls(steps.begin_ns / _NS, steps.end_ns / _NS, np.zeros(len(steps), bool))
        if run.lens == "collective":
            rows = run.exchanges
            return cls(rows.begin_ns / _NS, rows.end_ns / _NS, np.zeros(len(rows), bool))
        requests = run.requests
        return cls(requests.sent_ns / _NS, requests.end_ns / _NS, ~requests.ok)

    def inside(self, low: float, high: float) -> np.ndarray:
        return np.asarray((self.end > low) & (self.end <= high))

    def ended(self, low: float, high: float) -> int:
        return int((self.inside(low, high) & ~self.failed).sum())

    def failed_in(self, low: float, high: float) -> int:
        return int((self.inside(low, high) & self.failed).sum())

    def rate(self, low: float, high: float) -> float | None:
        """Rows per second, each by the share of it that lies inside: a step of ten seconds is no jump of the rate."""
        lasts = np.maximum(self.end - self.begin, 1e-9)
        share = np.clip((np.minimum(self.end, high) - np.maximum(self.begin, low)) / lasts, 0.0, 1.0)
        done = float(share[~self.failed].sum())
        return done / (high - low) if done else None


def _devices(run: Run, reads: Sequence[Read], low: float, high: float) -> tuple[DeviceWindow, ...]:
    """Every device whose counters were read, with what telemetry says of it; then the ranks of the work."""
    last = next((each for each in reversed(reads) if (each.measuring_s or 0.0) <= high), None)
    inside = [each for each in reads if each.measuring_s is not None and low <= each.measuring_s <= high]
    known: tuple[Reading, ...] = () if last is None else last.devices
    return (*(_device(each, inside, run, low, high) for each in known), *ranks_of(run, low, high))


def _device(reading: Reading, inside: Sequence[Read], run: Run, low: float, high: float) -> DeviceWindow:
    meanwhile = [each for read in inside for each in read.devices if each.device == reading.device] or [reading]
    counters = dict(reading.counters)
    for state in ("pcie_width", "pcie_generation"):  # a link without work goes down and comes back
        if told := [each.counters[state] for each in meanwhile if state in each.counters]:
            counters[state] = max(told)
    hottest = [each.temperature_c for each in meanwhile if each.temperature_c is not None]
    found = figures(run, reading.device, low, high)
    missing = {**reading.missing, **found.missing}
    temperature_c = max([*hottest, *([] if found.temperature_c is None else [found.temperature_c])], default=None)
    if temperature_c is not None:
        missing.pop("temperature", None)
    throttled = dict(found.throttled)
    if reading.device == PROCESSOR:
        _throttled_processor(throttled, missing, meanwhile)
    return replace(
        found,
        counters=counters,
        missing=missing,
        temperature_c=temperature_c,
        throttled=throttled,
        has_not=(*reading.has_not, *found.has_not),
        kind=reading.kind,
    )


def _throttled_processor(throttled: dict[str, float], missing: dict[str, str], meanwhile: Sequence[Reading]) -> None:
    """The share of the intervals between two readings in which a core or its package was slowed down for heat."""
    totals = [each.counters.get("core_throttles", 0) + each.counters.get("package_throttles", 0) for each in meanwhile]
    if "core_throttles" in meanwhile[-1].missing:
        missing["throttled"] = meanwhile[-1].missing["core_throttles"]
        return
    missing.pop("throttled", None)
    if len(totals) > 1 and (rises := sum(later > before for before, later in pairwise(totals))):
        throttled["thermal throttling of a core"] = rises / (len(totals) - 1)


def _exchanges(run: Run, rows: _Rows, low: float, high: float) -> tuple[Exchange, ...]:
    workload = run.spec.workload
    if not isinstance(workload, CollectiveWorkload) or workload.exchange != "all-reduce":
        return ()
    slowest_s = run.exchanges.slowest_ns[rows.inside(low, high)] / _NS
    return (Exchange(workload.size_bytes, float(np.median(slowest_s))),) if slowest_s.size else ()


def _with_checks(found: list[Window], edges: np.ndarray, run: Run, turn: Path) -> list[Window]:
    """Losses with the window in which their last step ended, answers with the last one, products with the first and
    the last: before the work and after it."""
    if not found:
        return found
    on_processor = run.facts is None or not run.facts.executor.value("accelerator.uuid")
    for name, end_ns, digest in loss_digests(run, on_processor=on_processor):
        place = int(np.searchsorted(edges, end_ns / _NS)) - 1
        if 0 <= place < len(found):
            found[place] = replace(found[place], checks={**found[place].checks, name: digest})
    found[-1] = replace(found[-1], checks={**found[-1].checks, **dict(answer_digests(run))})
    for entry in read_lines(turn / PRODUCTS_FILE):
        place = 0 if entry["when"] == "before" else len(found) - 1
        found[place] = replace(found[place], devices=_with_products(found[place].devices, entry["digests"]))
    return found


def _with_products(
    devices: tuple[DeviceWindow, ...], digests: Mapping[str, Mapping[str, str]]
) -> tuple[DeviceWindow, ...]:
    """A device whose product differs within the window keeps both, under one name each."""
    return tuple(
        replace(each, checks={**each.checks, **_beside(each.checks, digests[each.device])})
        if each.device in digests
        else each
        for each in devices
    )


def _beside(known: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    return {
        name: digest if known.get(name, digest) == digest else f"{known[name]}, then {digest}"
        for name, digest in more.items()
    }


def _failures(run: Run, turn: Path, about: Mapping[str, Any], begin_s: float, first: int) -> Iterator[Window]:
    """A window for each thing that failed in this turn: its run, or the products beside it."""
    for place, entry in enumerate(read_lines(turn / FAILED_FILE)):
        yield Window(
            number=first + place,
            workload=run.spec.name,
            lens=run.lens,
            turn=int(about["turn"]),
            begin_s=begin_s,
            at_utc=run.ended_utc or run.started_utc,
            seconds=0.0,
            work=0,
            rate_per_s=None,
            outcome="failed",
            why=str(entry["why"]).splitlines()[0][:300],
        )


def _time_of(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H%M%SZ").replace(tzinfo=UTC)


def _said(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H%M%SZ")
