"""Energy from counters the hardware keeps: GPU boards by NVML or AMD SMI, processor packages by RAPL.

Scopes are never added: a GPU board and a processor package are two numbers, and neither is the machine. A
counter that cannot be read gives a reason, never an estimate from nameplate power.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from twinlens.measure.nvidia import Gpu, open_gpus
from twinlens.measure.rapl import open_rapl
from twinlens.record.estimate import Estimate
from twinlens.record.executor import Fact, observed
from twinlens.units import JOULES

LEAST_PERIODS = 100
"""Counter periods in the shortest window worth reading: one period is then at most 1 % of it."""
CROSS_CHECK_LIMIT = 0.05
NVML_PERIOD_S = 0.1  # the counter moves every 10 to 100 ms by board; the slowest is assumed
_SCOPE_NAMES = {"gpu": "gpu board", "package": "processor package"}


class Meter(Protocol):
    """One energy counter; `scope` is like "gpu:UUID" or "package:0", `period_s` how often it moves."""

    @property
    def scope(self) -> str: ...
    @property
    def period_s(self) -> float: ...
    def joules(
        self,
    ) -> float | None: ...  # since the meter was opened, wraps counted; None where a reading failed


@dataclass(frozen=True, slots=True)
class Reading:
    """Joules since opening by scope (None: that reading failed), at `time_ns` of the monotonic clock."""

    time_ns: int
    joules: Mapping[str, float | None]
    period_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Meters:
    """The meters that are open, and why others are not (`reasons` by source)."""

    meters: tuple[Meter, ...]
    reasons: Mapping[str, str]

    def read(self) -> Reading:
        """All counters now. RAPL counters wrap: read at least once a minute in a long run."""
        values = {meter.scope: meter.joules() for meter in self.meters}
        return Reading(time.monotonic_ns(), values, {meter.scope: meter.period_s for meter in self.meters})

    def why(self) -> str:
        """One clause on what is missing."""
        return (
            "; ".join(f"{source}: {reason}" for source, reason in self.reasons.items()) or "no energy counter"
        )


class GpuMeter:
    """NVML's total energy of one board; None where the counter is refused or went back (driver reload)."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.scope, self.period_s = f"gpu:{gpu.uuid}", NVML_PERIOD_S
        self._first_mj = gpu.energy_mj()

    def joules(self) -> float | None:
        now_mj = self._gpu.energy_mj()
        if now_mj is None or self._first_mj is None or now_mj < self._first_mj:
            return None
        return (now_mj - self._first_mj) / 1e3


class AmdMeter:
    """AMD SMI's energy accumulator of one GPU (`read_uj` gives microjoules)."""

    def __init__(self, uuid: str, read_uj: Callable[[], float]) -> None:
        self.scope, self.period_s = f"gpu:{uuid}", NVML_PERIOD_S
        self._read_uj, self._first_uj = read_uj, read_uj()

    def joules(self) -> float | None:
        spent_uj = self._read_uj() - self._first_uj
        return spent_uj / 1e6 if spent_uj >= 0 else None


def open_meters(gpus: Sequence[Gpu] | None = None, powercap: Path = Path("/sys/class/powercap")) -> Meters:
    """Every counter readable here. `gpus` None opens those that NVML sees."""
    reasons: dict[str, str] = {}
    if gpus is None:
        gpus, reason = open_gpus()
        if reason:
            reasons["NVML"] = reason
    meters: list[Meter] = []
    for gpu in gpus:
        refused = _gpu_refusal(gpu)
        if refused:
            reasons[f"NVML {gpu.uuid}"] = refused
        else:
            meters.append(GpuMeter(gpu))
    packages, reason = open_rapl(powercap)
    if reason:
        reasons["RAPL"] = reason
    amd, reason = _open_amd()
    if reason:
        reasons["AMD SMI"] = reason
    return Meters((*meters, *packages, *amd), reasons)


def _gpu_refusal(gpu: Gpu) -> str | None:
    if gpu.energy_mj() is None:
        return "this board or driver has no energy counter"
    mig = gpu.ask("nvmlDeviceGetMigMode")
    return "the board is partitioned (MIG): its counter covers neighbours too" if mig and mig[0] else None


def _open_amd() -> tuple[tuple[AmdMeter, ...], str | None]:
    try:
        import amdsmi  # type: ignore[import-not-found,unused-ignore]
    except Exception as error:  # its import loads a driver library and fails in its own ways
        return (), f"amdsmi cannot be imported ({type(error).__name__})"
    try:
        amdsmi.amdsmi_init()
        found = tuple(_amd_meter(amdsmi, handle) for handle in amdsmi.amdsmi_get_processor_handles())
    except amdsmi.AmdSmiException as error:
        return (), str(error)
    return found, None if found else "no AMD GPU"


def _amd_meter(library: object, handle: object) -> AmdMeter:
    read = library.amdsmi_get_energy_count  # type: ignore[attr-defined]

    def microjoules() -> float:
        count = read(handle)
        return float(count["energy_accumulator"]) * float(count["counter_resolution"])

    return AmdMeter(str(library.amdsmi_get_gpu_device_uuid(handle)), microjoules)  # type: ignore[attr-defined]


def energy_between(
    a: Reading,
    b: Reading,
    power_w: Mapping[str, Iterable[tuple[int, float]]] | None = None,
    why: str = "no energy counter is readable here",
) -> dict[str, Estimate]:
    """Energy per scope from reading `a` to reading `b`; with no counter, one absent estimate under "none".

    `power_w` gives (time_ns, watts) samples by scope, on the readings' clock: their integral is compared
    with the counter and a gap above 5 % stands in the method. The interval is one counter period at each
    edge, at mean power.
    """
    if not b.joules:
        return {"none": Estimate.absent(JOULES, why, "energy counter")}
    traces = power_w or {}
    return {scope: _energy(scope, a, b, traces.get(scope)) for scope in b.joules}


def _energy(scope: str, a: Reading, b: Reading, trace: Iterable[tuple[int, float]] | None) -> Estimate:
    begin, end = a.joules.get(scope), b.joules[scope]
    window_s, period_s = (b.time_ns - a.time_ns) / 1e9, b.period_s[scope]
    method = f"{_name(scope)} energy counter over {window_s:.1f} s"
    if begin is None or end is None:
        return Estimate.absent(JOULES, "a reading of the counter failed or it was reset", method)
    if window_s < LEAST_PERIODS * period_s:
        least = f"{LEAST_PERIODS} counter periods ({LEAST_PERIODS * period_s:g} s)"
        return Estimate.absent(JOULES, f"the window of {window_s:.2f} s is shorter than {least}", method)
    spent = end - begin
    if spent <= 0:
        return Estimate.absent(JOULES, "the counter did not move", method)
    edge = spent / window_s * period_s
    method += _cross_check(spent, a.time_ns, b.time_ns, trace)
    return Estimate(spent, JOULES, method, "measured", spent - edge, spent + edge, n=int(window_s / period_s))


def _name(scope: str) -> str:
    kind, _, which = scope.partition(":")
    return f"{_SCOPE_NAMES.get(kind, kind)} {which}".strip()


def _cross_check(spent: float, begin_ns: int, end_ns: int, trace: Iterable[tuple[int, float]] | None) -> str:
    """A clause that compares the counter with the trapezoid integral of the power samples in the window."""
    points = sorted((t, w) for t, w in trace or () if begin_ns <= t <= end_ns)
    if len(points) < 2:
        return ", not cross-checked against power"
    area = sum((w0 + w1) / 2 * (t1 - t0) / 1e9 for (t0, w0), (t1, w1) in pairwise(points))
    covered_s = (points[-1][0] - points[0][0]) / 1e9
    integral = (
        area / covered_s * (end_ns - begin_ns) / 1e9
    )  # the edges outside the samples at their mean power
    gap = integral / spent - 1
    verdict = "DISAGREES with" if abs(gap) > CROSS_CHECK_LIMIT else "agrees with"
    return f", {verdict} integrated power ({integral:.1f} J, {gap:+.1%})"


def energy_facts(meters: Meters) -> dict[str, Fact]:
    """The source and boundary of energy readings; "none" with the reasons is an observation."""
    if not meters.meters:
        return {
            "power.source": observed("none", meters.why()),
            "power.boundary": observed("none", meters.why()),
        }
    kinds = sorted({meter.scope.partition(":")[0] for meter in meters.meters})
    sources = {"gpu": "GPU energy counter", "package": "RAPL package counter"}
    return {
        "power.source": observed([sources.get(kind, kind) for kind in kinds], "open meters"),
        "power.boundary": observed([_SCOPE_NAMES.get(kind, kind) for kind in kinds], "open meters"),
    }
