"""Replayed telemetry of a burn-in whose truth is known: windows of two workloads in turns on several devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from twinlens.acceptance.window import Asked, DeviceWindow, Exchange, Fit, Window

SOUND = {
    "ecc_corrected": 3, "ecc_uncorrected": 0, "xid": 0, "pcie_replays": 2, "link_errors": 0,
    "pcie_width": 16, "pcie_generation": 5,
}  # fmt: skip
CHECKS = {"train": {"loss of steps 1 to 64": "a1"}, "decode": {"greedy answers": "b2"}}
FIT = Fit(latency_s=20e-6, bytes_per_s=200e9)
Change = Callable[[Window], Window]


def asked(hours: float, devices: int = 8) -> Asked:
    names = tuple(f"gpu{place}" for place in range(devices))
    return Asked(("train", "decode"), hours * 3600, devices=names, counters=dict.fromkeys(names, SOUND), fit=FIT)


def telemetry(
    hours: float = 48.0,
    seed: int = 0,
    *,
    devices: int = 8,
    sigma: float = 0.007,
    drift: float = 0.0,
    day: float = 0.0,
    window_s: float = 60.0,
    turn: int = 10,
) -> tuple[Window, ...]:
    """Windows one after another. `sigma`: noise of log rate; `drift`: change of log rate in ten hours; `day`: how far
    log rate swings with the temperature of a day, which has another phase with every seed."""
    rng = np.random.default_rng(seed)
    n = round(hours * 3600 / window_s)
    at = (np.arange(n) + 0.5) * window_s
    swing = np.sin(2 * math.pi * (at / 86400 + rng.random()))
    log_rate = drift * at / 36000 - day * swing + sigma * rng.standard_normal(n)
    own = 0.002 * rng.standard_normal((n, devices))
    heat = np.round(62 + 5 * swing[:, None] + 0.5 * rng.standard_normal((n, devices)))
    return tuple(
        _window(place, turn, window_s, float(math.exp(log_rate[place])), own[place], heat[place]) for place in range(n)
    )


def _window(place: int, turn: int, window_s: float, rate: float, own: np.ndarray, heat: np.ndarray) -> Window:
    at = place // turn
    workload = ("train", "decode")[at % 2]
    rate *= 4.0 if workload == "train" else 900.0
    devices = tuple(
        DeviceWindow(
            f"gpu{each}", rate * math.exp(float(own[each])) / len(own), 1.7e9, float(heat[each]), 640.0,
            {"software power cap": 0.9}, SOUND, kind="H100", checks={"product bf16": "c3"},
        )
        for each in range(len(own))
    )  # fmt: skip
    exchanges = (Exchange(2**26, (FIT.latency_s + 2**26 / FIT.bytes_per_s) * math.exp(float(own[0]))),)
    return Window(
        place + 1, workload, "training" if workload == "train" else "inference", at + 1, place * window_s,
        f"2026-11-27 {place}", window_s, int(rate * window_s), rate, 0, CHECKS[workload], devices, exchanges,
    )  # fmt: skip


def changed(windows: tuple[Window, ...], change: Change, begin: float = 0.0, end: float = 1.0) -> tuple[Window, ...]:
    """The same with a change in the windows between two shares of the test."""
    first, last = int(begin * len(windows)), int(end * len(windows))
    return tuple(change(each) if first <= place < last else each for place, each in enumerate(windows))


def on(device: str, change: Callable[[DeviceWindow], DeviceWindow]) -> Change:
    """The change of one device as that of a window."""
    return lambda window: replace(
        window, devices=tuple(change(each) if each.device == device else each for each in window.devices)
    )


def counted(device: DeviceWindow, counters: Mapping[str, int]) -> DeviceWindow:
    return replace(device, counters={**device.counters, **counters})
