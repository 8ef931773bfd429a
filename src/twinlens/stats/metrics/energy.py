"""Energy over the steady window, from the counters that telemetry recorded; otherwise why there is none.

Scopes are never added, and none stands in for another: a run that used GPU boards is charged with those or with
nothing, one on the processor with its packages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.scaled import scaled
from twinlens.units import JOULES, WATTS

LEAST_PERIODS = 100  # counter periods in the shortest window worth reading: one is then at most 1 % of it
CROSS_CHECK_LIMIT = 0.05
_PERIOD_S = {
    "gpu": 0.1,
    "package": 0.001,
}  # NVML counters move every 10 to 100 ms by board; RAPL every millisecond
EnergyScope = Literal["gpu", "package"]
_SCOPES = {"gpu": "GPU board", "package": "processor package"}


@dataclass(frozen=True, slots=True)
class _Counter:
    """One source's readings in the window: seconds, joules, and watts where power was sampled."""

    time_s: np.ndarray
    joules: np.ndarray
    power_w: np.ndarray


def energy(
    telemetry: pa.Table,
    begin_s: float,
    end_s: float,
    work: dict[str, float],
    why_not: str,
    scope: EnergyScope | None = None,
    without: Sequence[tuple[float, float]] = (),
) -> dict[str, Estimate]:
    """Joules per unit of work (`work`: metric id → how many units the window holds), and mean power.

    `why_not`: the reason to give where no counter was read at all. `scope`: what the run is charged with and nothing
    else, its GPU boards or the processor packages; None (runs of which that is not known): boards before packages.
    `without`: stretches (begin, end) in seconds whose energy is not charged, as none of the work was done in them.
    """
    inside = [(max(begin_s, begin), min(end_s, end)) for begin, end in without if begin < end_s and end > begin_s]
    spent = _spent(telemetry, begin_s, end_s, why_not, scope, inside)
    left_s = end_s - begin_s - sum(end - begin for begin, end in inside)
    if spent.value is None:
        reason = spent.reason or why_not
        absent = {name: Estimate.absent(JOULES, reason) for name in work}
        return absent | {"mean_power_w": Estimate.absent(WATTS, reason)}
    metrics = {
        name: scaled(spent, 1 / amount, JOULES, "energy / work done in the window", "measured")
        for name, amount in work.items()
        if amount
    }
    return metrics | {"mean_power_w": scaled(spent, 1 / left_s, WATTS, "energy / window", "measured")}


def _spent(
    telemetry: pa.Table,
    begin_s: float,
    end_s: float,
    why_not: str,
    scope: EnergyScope | None,
    without: Sequence[tuple[float, float]],
) -> Estimate:
    """Joules in the window less those in `without`, summed over the devices of one scope."""
    counters = _counters(telemetry, begin_s, end_s)
    allowed = _SCOPES if scope is None else (scope,)
    kind = next((k for k in allowed if any(name.startswith(k) for name in counters)), None)
    if kind is None:
        return Estimate.absent(JOULES, why_not)
    window_s, period_s = end_s - begin_s, _PERIOD_S[kind]
    if window_s < LEAST_PERIODS * period_s:
        least = f"{LEAST_PERIODS} counter periods ({LEAST_PERIODS * period_s:g} s)"
        return Estimate.absent(JOULES, f"the steady window of {window_s:.2f} s is shorter than {least}")
    total, notes = 0.0, []
    for name, counter in counters.items():
        if not name.startswith(kind):
            continue
        if len(counter.time_s) < 2 or counter.joules[-1] <= counter.joules[0] or (np.diff(counter.joules) < 0).any():
            return Estimate.absent(JOULES, f"the energy counter of {name} stood still, was reset or was not read")
        covered_s = float(counter.time_s[-1] - counter.time_s[0])
        # Samples fall inside the window; its edges are charged at the mean power between them.
        joules = float(counter.joules[-1] - counter.joules[0]) * window_s / covered_s
        notes.append(_cross_check(counter, joules / window_s))
        total += joules - _in_between(counter, without)
    left_s = window_s - sum(end - begin for begin, end in without)
    # Each stretch left out has two edges of its own, known to a counter period as those of the window are.
    edge = total * period_s / left_s * np.sqrt(1 + len(without))
    evaluated = f" less {len(without)} stretches without work" if without else ""
    method = f"{_SCOPES[kind]} energy counter over {window_s:.1f} s{evaluated}, {'; '.join(notes)}"
    return Estimate(total, JOULES, method, "measured", total - edge, total + edge, n=int(window_s / period_s))


def _in_between(counter: _Counter, stretches: Sequence[tuple[float, float]]) -> float:
    """Joules in the stretches, the counter read between its samples as if power were even there."""
    edges = np.array(stretches, dtype=float).reshape(-1, 2)
    read = np.interp(edges, counter.time_s, counter.joules)
    return float((read[:, 1] - read[:, 0]).sum())


def _counters(telemetry: pa.Table, begin_s: float, end_s: float) -> dict[str, _Counter]:
    time_s = telemetry.column("time_ns").to_numpy() / 1e9
    source = telemetry.column("source").to_numpy(zero_copy_only=False).astype(str)
    joules = telemetry.column("energy_mj").cast(pa.float64()).to_numpy(zero_copy_only=False) / 1e3
    power_w = telemetry.column("power_w").to_numpy(zero_copy_only=False).astype(float)
    readable = np.isfinite(joules)
    inside = readable & (time_s >= begin_s) & (time_s <= end_s)
    names = sorted(set(source[readable]))
    return {
        str(name): _Counter(*(column[inside & (source == name)] for column in (time_s, joules, power_w)))
        for name in names
    }


def _cross_check(counter: _Counter, mean_power_w: float) -> str:
    """Compares the counter's mean power with the time-weighted mean of the power samples."""
    sampled = np.isfinite(counter.power_w)
    if sampled.sum() < 2:
        return "not cross-checked against power"
    time_s, power_w = counter.time_s[sampled], counter.power_w[sampled]
    mean = float(np.trapezoid(power_w, time_s) / (time_s[-1] - time_s[0]))
    gap = mean / mean_power_w - 1
    verdict = "DISAGREES with" if abs(gap) > CROSS_CHECK_LIMIT else "agrees with"
    return f"{verdict} integrated power ({gap:+.1%})"
