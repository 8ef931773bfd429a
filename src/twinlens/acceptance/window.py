"""Windows of a burn-in: what ran in each, how fast, on which devices, with which counters and digests; and its folder.

A burn-in is a folder: `burnin.json` (`BurnIn`, written once before the first window) and `windows.jsonl`, one `Window`
a line, appended as each ends. A line that was cut short by a kill or a full disk is dropped when the file is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from twinlens.acceptance.criteria import Criterion
from twinlens.errors import BadInput
from twinlens.record.codec import OPTIONAL, decode, encode
from twinlens.spec.precision import Lens
from twinlens.system import json_lines
from twinlens.system.document import json_of, read_json

BURNIN_FILE, WINDOWS_FILE = "burnin.json", "windows.jsonl"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class DeviceWindow:
    """One device, or one rank of the work, in one window.

    `rate`: its own work per second; None where the work is not divided among devices. `clock_hz`: mean;
    `temperature_c`: highest; `power_w`: mean. `throttled`: share of the window (0-1) by reason, those of
    `criteria.THROTTLE_REASONS`. `counters`: totals and states as read at the window's end, by names of
    `criteria.COUNTERS`. `missing`: why a counter, or "clock", "temperature", "power", "throttled", could not be read.
    `has_not`: those that a device of its kind does not have at all (a processor has no PCIe width), which no criterion
    then asks of it. `kind`: its model, such as "NVIDIA H100 80GB HBM3"; `checks`: digests of fixed products on it
    ("product bf16"), which are the same in every window and on all devices of one kind.
    """

    device: str
    rate: float | None = None
    clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttled: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict, metadata=OPTIONAL)
    has_not: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    kind: str = field(default="", metadata=OPTIONAL)
    checks: Mapping[str, str] = field(default_factory=dict, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True)
class Exchange:
    """An all-reduce among all devices: its size, and the median time of one in this window."""

    size_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Window:
    """One window. `number` counts from 1 over the whole burn-in, resumed or not.

    `workload`: the spec's name. `turn`: the turn of one workload that it belongs to, from 1. `begin_s`: seconds of
    test time from the first window, monotonic, without the time in which no test ran. `at_utc`: the wall clock, shown
    and never computed with. `work`: steps or requests that ended in `seconds`; `rate_per_s`: how fast, None where none
    did; `failed`: those that failed. `checks`: digests by what was checked ("loss of steps 1 to 64", "greedy answers"),
    which are the same in every window of this workload on a sound machine; fixed products are checks of a device.
    `outcome` is "failed", with `why`, where the window could not be measured.
    """

    number: int
    workload: str
    lens: Lens
    turn: int
    begin_s: float
    at_utc: str
    seconds: float
    work: int
    rate_per_s: float | None
    failed: int = 0
    checks: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[DeviceWindow, ...] = ()
    exchanges: tuple[Exchange, ...] = field(default=(), metadata=OPTIONAL)
    outcome: Literal["ok", "failed"] = "ok"
    why: str = ""


@dataclass(frozen=True, slots=True)
class Fit:
    """An all-reduce of S bytes takes `latency_s` + S / `bytes_per_s`, as measured before the first window."""

    latency_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked. `workloads`: names of the specs in their order. `for_s`: planned test time; `window_s`, `rest_s`:
    of one window and between turns. `devices`: names as in `DeviceWindow`. `counters`: totals and states as read before
    the first window, by device and name. `fit`: of all-reduce on several devices, None where it was not measured."""

    workloads: tuple[str, ...]
    for_s: float
    window_s: float = 60.0
    rest_s: float = 0.0
    seed: int = 0
    devices: tuple[str, ...] = ()
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    fit: Fit | None = None


@dataclass(frozen=True, slots=True)
class BurnIn:
    """The head of a burn-in, written before its first window. `criteria`: as read, so that no later edit counts.

    `machine`: facts of it by name. `specs`: each spec as plain data. `begun_utc`: only shown.
    """

    asked: Asked
    criteria: tuple[Criterion, ...]
    begun_utc: str
    machine: Mapping[str, Any] = field(default_factory=dict)
    specs: tuple[Mapping[str, Any], ...] = ()
    version: str = ""
    schema: int = SCHEMA


def write_head(folder: Path, head: BurnIn) -> None:
    """Write `burnin.json`. Raises FileExistsError where the folder has one, OSError where it cannot be written."""
    with (folder / BURNIN_FILE).open("x", encoding="utf-8") as file:
        file.write(json.dumps(encode(head), indent=1, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def append(folder: Path, window: Window) -> None:
    """Append one window and bring it to the disk. Raises OSError, with nothing of it left behind on a full disk."""
    json_lines.append(folder / WINDOWS_FILE, encode(window))


def read_burnin(folder: Path) -> tuple[BurnIn, tuple[Window, ...]]:
    """Head and windows of a burn-in. Raises BadInput (TL260) where the folder is none or a line is not as written."""
    head = folder / BURNIN_FILE
    try:
        asked = decode(BurnIn, read_json(head))
    except FileNotFoundError:
        raise BadInput(f"{folder} holds no burn-in: there is no {BURNIN_FILE}", code="TL260") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{head} cannot be read: {error}", code="TL260") from None
    return asked, read_windows(folder)


def read_windows(folder: Path) -> tuple[Window, ...]:
    """All whole windows, in order; none where the file is not there. Raises BadInput (TL260) for a broken line."""
    path = folder / WINDOWS_FILE
    if not path.exists():
        return ()
    *lines, _ = path.read_bytes().split(b"\n")  # the last is empty, or was cut short
    windows = []
    for number, line in enumerate(lines, 1):
        try:
            windows.append(decode(Window, json_of(line.decode())))
        except ValueError as error:
            raise BadInput(f"{path}, line {number}, is no window of a burn-in: {error}", code="TL260") from None
    return tuple(windows)
