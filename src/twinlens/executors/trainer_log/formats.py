"""One line of a log without its colours and its prefix, and the numbers in it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from twinlens.executors.trainer_log.rows import Said, StepRecord
from twinlens.system.document import json_of

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_RANK = re.compile(r"^\s*\[((?:default|rank)\d+)\]:\s?|^\s*(\d{1,6}):\s")
_LONGEST = 20_000
_MOST = 2**53
_LONGEST_STEP_S = 1e5


def plain(line: str) -> tuple[str, str]:
    """The prefix by which torchrun and Slurm tell processes apart ("" where there is none), and the rest."""
    text = _COLOURS.sub("", line[:_LONGEST]).rstrip("\r\n")
    if (found := _RANK.match(text)) is None:
        return "", text
    return found[1] or found[2], text[found.end() :]


def cells(text: str) -> dict[str, str]:
    """`key: value` or `key=value` between the bars of a line, the first of each key; any order, any set of keys."""
    found: dict[str, str] = {}
    for cell in text.split("|"):
        key, separator, value = cell.partition(":" if ":" in cell else "=")
        if separator:
            found.setdefault(key.strip(), value.strip())
    return found


def real(text: str | None) -> float | None:
    """A finite number; of "now/mean", as forks print, the first. None for anything else."""
    try:
        value = float((text or "").split("/")[0].replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def loss(text: str) -> float | None:
    """As `real`, but "nan" and "inf" are told: such training has diverged."""
    try:
        return float(text.split("/")[0])
    except ValueError:
        return None


def whole(text: str | None) -> int | None:
    """A count that a column of 64 bits holds; None for anything else."""
    value = real(text)
    return int(value) if value is not None and 0 <= value < _MOST and value == int(value) else None


def seconds(text: str | None, unit_s: float) -> tuple[float | None, float]:
    """A step's time and its last printed digit, in seconds; None for what no step takes."""
    value = real(text)
    if text is None or value is None or not 0 < value * unit_s < _LONGEST_STEP_S:
        return None, 0.0
    mantissa, _, exponent = text.split("/")[0].replace(",", "").strip().lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    return value * unit_s, unit_s * 10.0 ** (int(exponent or 0) - digits)


# Megatron-LM's line of an iteration, and the timers below it (`--timing-log-level`), in milliseconds. Written after
# training.py and timers.py of August 2026, forks and earlier versions. The line is a mean over `--log-interval`; keys
# come and go, so it is split at its bars.

_MEGATRON_STEP = re.compile(r"\biteration\s+(\d+)\s*/")
_TIMER = re.compile(r"^\s+([\w-]+)\s*\.*:\s*(?:\(([^,()]+),([^,()]+)\)|([\d.eE+-]+))?\s*$")
_TIMER_OF_RANK = re.compile(r"^\s+rank\s+\d+:\s*([\d.eE+-]+)\s*$")
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


def read_megatron(lines: Iterable[str]) -> Iterator[Said]:
    """Records of all lines of iterations, each once the next begins: the timers below it are its own, of any rank the
    largest."""
    record: StepRecord | None = None
    timers: dict[str, float] = {}
    timer, timed = "", False
    for place, line in enumerate(lines):
        rank, text = plain(line)
        head = text.partition("|")[0]
        if "|" in text and (found := _MEGATRON_STEP.search(head)) is not None:
            if record is not None:
                yield _timed(record, timers)
            timers, timer, timed = {}, "", False
            record = _of_megatron(whole(found[1]), rank, cells(text), place)
            if record is None:
                yield None
        elif _MEMORY.search(text) is not None:  # a line of each rank, once the optimizer has its state
            yield {name: peak * 2**20 for name, peak in _said(cells(text), _PEAKS).items()}
        elif not timed:
            timed = _TIMERS in text
        elif (of_rank := _TIMER_OF_RANK.match(text)) is not None and timer:
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


def _of_megatron(number: int | None, rank: str, found: Mapping[str, str], place: int) -> StepRecord | None:
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


# torchtitan's line on the console. It says no step time, so that is the time between two lines, which also holds
# evaluations and checkpoints between them; its tps is of one device, and no count, and its memory the most that
# torch's allocator reserved on one GPU.

_WHEN = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[,.](\d{1,6}))?")
_MOST_S = 1e5


@dataclass(frozen=True, slots=True)
class Line:
    """Patterns of a line on a step that says no step time. `memory`: the peak it says of one GPU, and its GiB."""

    step: re.Pattern[str]
    loss: re.Pattern[str]
    memory: tuple[str, re.Pattern[str]]


_TORCHTITAN = Line(
    step=re.compile(r"(?<!validate )\bstep:\s*(\d+)\b"),
    loss=re.compile(r"\bloss:\s*(\S+)"),
    memory=("reserved_bytes", re.compile(r"\bmemory:\s*([\d.]+)GiB")),
)


def read_torchtitan(lines: Iterable[str]) -> Iterator[Said]:
    """Records of all lines of steps; the first of each process has no time, as nothing says when it began."""
    return between(lines, _TORCHTITAN)


def between(lines: Iterable[str], line_of: Line) -> Iterator[Said]:
    """Records whose time is that between two lines of one process."""
    before: dict[str, tuple[int, int]] = {}
    for place, line in enumerate(lines):
        rank, text = plain(line)
        step, said = line_of.step.search(text), line_of.loss.search(text)
        if step is None or said is None:
            continue
        number, value, when = whole(step[1]), loss(said[1]), _when(text)
        if number is None or when is None or value is None:
            yield None
            continue
        at_us, digit_s = when
        earlier, then_us = before.get(rank, (number, at_us))
        steps, spent_s = number - earlier, (at_us - then_us) / 1e6
        known = steps > 0 and 0 < spent_s / steps < _MOST_S
        step_s, resolution_s = (spent_s / steps, digit_s / steps) if known else (None, 0.0)
        before[rank] = (number, at_us)
        yield StepRecord(
            number, step_s, resolution_s, losses={"loss": value}, of_gpu=_memory(text, line_of), rank=rank, line=place
        )


def _memory(text: str, line_of: Line) -> dict[str, float]:
    name, pattern = line_of.memory
    value = real(found[1]) if (found := pattern.search(text)) is not None else None
    return {} if value is None else {name: value * 2**30}


def _when(text: str) -> tuple[int, float] | None:
    """Microseconds of the log's own clock, and its last digit in seconds."""
    if (found := _WHEN.search(text)) is None:
        return None
    try:
        moment = datetime.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    digits = found[3] or ""
    return int(moment.timestamp()) * 10**6 + int(digits.ljust(6, "0")), 10.0 ** -len(digits)


# torchtitan's structured log: one JSON object a line, of which the end of the span `step` has its milliseconds. Its
# other spans are host times: nothing waits for the device at their ends, so they are phases of no step.

_SPAN_END = "step_end"


def read_spans(lines: Iterable[str]) -> Iterator[Said]:
    """Records of all ends of steps; losses and samples are in another file."""
    for place, line in enumerate(lines):
        if f'"{_SPAN_END}"' in line:
            yield _of_span(line, place)


def _of_span(line: str, place: int) -> StepRecord | None:
    try:
        data: Any = json_of(plain(line)[1])
    except ValueError:
        return None
    if not isinstance(data, dict) or data.get("log_type_name") != _SPAN_END:
        return None
    number, value = whole(str(data.get("step"))), data.get("value")
    step_s, resolution_s = seconds(repr(value) if isinstance(value, int | float) else None, 1e-3)
    if number is None or step_s is None or isinstance(value, bool):
        return None
    return StepRecord(number, step_s, resolution_s, rank=str(data.get("rank", ""))[:20], line=place)


# NeMo 2's line of a step (Lightning's progress printer). Its steps count from 0; `val_loss` stays on every later line
# once there was one, so it is left out. Megatron-Bridge prints Megatron's line instead.

_NEMO_STEP = re.compile(r"\bTraining epoch \d+, iteration (\d+)\s*/")


def read_nemo(lines: Iterable[str]) -> Iterator[Said]:
    """Records of all lines of steps, numbered from 1."""
    for place, line in enumerate(lines):
        rank, text = plain(line)
        if "|" in text and (found := _NEMO_STEP.search(text.partition("|")[0])) is not None:
            yield _of_nemo(whole(found[1]), rank, text, place)


def _of_nemo(iteration: int | None, rank: str, text: str, place: int) -> StepRecord | None:
    found = cells(text)
    step_s, resolution_s = seconds(found.get("train_step_timing in s"), 1.0)
    number = whole(found["global_step"]) if "global_step" in found else iteration
    if number is None or step_s is None:
        return None
    said, reserved = loss(found.get("reduced_train_loss", "")), real(found.get("max_memory_reserved"))
    return StepRecord(
        number + 1,
        step_s,
        resolution_s,
        samples=whole(found.get("global_batch_size")),
        consumed=whole(found.get("consumed_samples")),
        losses={} if said is None else {"reduced_train_loss": said},
        of_gpu={} if reserved is None else {"reserved_bytes": reserved},
        rank=rank,
        line=place,
    )


# NeMo Automodel's line of a step, written after its recipes of 2025 and 2026. It says no step time, so that is the
# time between two lines; its memory is the most that torch's allocator gave out on the GPU of rank 0.

_AUTOMODEL = Line(
    step=re.compile(r"(?:^|(?<!\" )\| )step (\d+) \| epoch \d+ "),
    loss=re.compile(r"\| loss (\S+)"),
    memory=("allocated_bytes", re.compile(r"\| mem ([\d.]+) GiB")),
)


def read_automodel(lines: Iterable[str]) -> Iterator[Said]:
    """Records of all lines of steps but those of a validation; the first of each process has no time."""
    return between(lines, _AUTOMODEL)
