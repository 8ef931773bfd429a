"""Megatron-LM's line of an iteration, and the timers below it (`--timing-log-level`), in milliseconds.

Written after training.py and timers.py of August 2026, forks and earlier versions. The line is a mean over
`--log-interval`; keys come and go, so it is split at its bars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from twinlens.executors.trainer_log.line import cells, loss, plain, real, seconds, whole
from twinlens.executors.trainer_log.step_record import Said, StepRecord

_ITERATION = re.compile(r"\biteration\s+(\d+)\s*/")
_TIMER = re.compile(r"^\s+([\w-]+)\s*\.*:\s*(?:\(([^,()]+),([^,()]+)\)|([\d.eE+-]+))?\s*$")
_RANK = re.compile(r"^\s+rank\s+\d+:\s*([\d.eE+-]+)\s*$")
_TIMERS = "across ranks (ms)"
_ELAPSED = (
    ("elapsed time per iteration (ms)", 1e-3),
    ("elapsed_time_per_iteration_ms", 1e-3),
    ("elapsed time per iteration (s)", 1.0),
)
_MEMORY = re.compile(r"\(after \d+ iterations\) memory \(MB\)")
_OF_GPU = {"energy_j": "energy per GPU (J/iter/GPU)", "power_w": "power per GPU (W/GPU)"}
_PEAKS = {"allocated_bytes": "max allocated", "reserved_bytes": "max reserved"}
_EXCHANGED = ("forward-recv", "backward-recv", "forward-send", "backward-send")


def read(lines: Iterable[str]) -> Iterator[Said]:
    """Records of all lines of iterations, each once the next begins: the timers below it are its own, of any rank the
    largest."""
    record: StepRecord | None = None
    timers: dict[str, float] = {}
    timer, timed = "", False
    for place, line in enumerate(lines):
        rank, text = plain(line)
        head = text.partition("|")[0]
        if "|" in text and (found := _ITERATION.search(head)) is not None:
            if record is not None:
                yield _timed(record, timers)
            timers, timer, timed = {}, "", False
            record = _record(whole(found[1]), rank, cells(text), place)
            if record is None:
                yield None
        elif _MEMORY.search(text) is not None:  # a line of each rank, once the optimizer has its state
            yield {name: peak * 2**20 for name, peak in _said(cells(text), _PEAKS).items()}
        elif not timed:
            timed = _TIMERS in text
        elif (of_rank := _RANK.match(text)) is not None and timer:
            timers[timer] = max(timers.get(timer, 0.0), (real(of_rank[1]) or 0.0) / 1e3)
        elif (entry := _TIMER.match(text)) is not None:
            timer = entry[1]
            if (value := real(entry[3] or entry[4])) is not None:
                timers[timer] = value / 1e3
    if record is not None:
        yield _timed(record, timers)


def _said(found: Mapping[str, str], names: Mapping[str, str]) -> dict[str, float]:
    said = {name: real(found.get(key)) for name, key in names.items()}
    return {name: value for name, value in said.items() if value is not None}


def _record(number: int | None, rank: str, found: Mapping[str, str], place: int) -> StepRecord | None:
    times = (seconds(found[key], unit_s) for key, unit_s in _ELAPSED if key in found)
    step_s, resolution_s = next(times, (None, 0.0))
    if number is None or step_s is None:
        return None
    losses = {key: loss(value) for key, value in found.items() if key.endswith("loss")}
    return StepRecord(
        number,
        step_s,
        resolution_s,
        samples=whole(found.get("global batch size")),
        consumed=whole(found.get("consumed samples")),
        consumed_tokens=whole(found.get("consumed tokens")),
        losses={key: value for key, value in losses.items() if value is not None},
        skipped=whole(found.get("number of skipped iterations")) or 0,
        nan=whole(found.get("number of nan iterations")) or 0,
        of_gpu=_said(found, _OF_GPU),
        rank=rank,
        line=place,
    )


def _timed(record: StepRecord, timers: Mapping[str, float]) -> StepRecord:
    return replace(record, phases_s=phases(timers)) if timers else record


def phases(timers: Mapping[str, float]) -> dict[str, float]:
    """Phases of a step by its timers: what lies within another timer is taken out of it. Forward and backward only
    where nothing is exchanged between stages of a pipeline, whose waits those timers hold."""
    found: dict[str, float] = {}
    gathered = timers.get("params-all-gather", 0.0)
    if "optimizer" in timers:
        found["optimize"] = max(0.0, timers["optimizer"] - gathered)
    if "all-grads-sync" in timers:
        found["communicate"] = timers["all-grads-sync"] + gathered
    if "batch-generator" in timers:
        found["data"] = timers["batch-generator"]
    if not any(name.startswith(_EXCHANGED) for name in timers):
        if "forward-compute" in timers:
            found["forward"] = max(0.0, timers["forward-compute"] - timers.get("batch-generator", 0.0))
        if "backward-compute" in timers:
            found["backward"] = timers["backward-compute"]
    return found
