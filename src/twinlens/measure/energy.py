"""Energy from counters the hardware keeps: GPU boards by NVML or AMD SMI, processor packages by RAPL.

Scopes are never added: a GPU board and a processor package are two numbers, and neither is the machine. A
counter that cannot be read gives a reason, never an estimate from nameplate power.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from twinlens.measure.nvidia import Gpu, open_gpus
from twinlens.measure.rapl import open_rapl
from twinlens.record.executor import Fact, observed

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
class Meters:
    """The meters that are open, and why others are not (`reasons` by source)."""

    meters: tuple[Meter, ...]
    reasons: Mapping[str, str]

    def read(self) -> dict[str, float | None]:
        """Joules since opening by scope. RAPL counters wrap: read at least once a minute in a long run."""
        return {meter.scope: meter.joules() for meter in self.meters}

    def why(self) -> str:
        """One clause on what is missing."""
        return "; ".join(f"{source}: {reason}" for source, reason in self.reasons.items()) or "no energy counter"


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
