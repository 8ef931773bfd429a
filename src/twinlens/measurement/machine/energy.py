"""Energy from counters the hardware keeps: GPU boards by NVML or AMD SMI, processor packages by RAPL.

Scopes are never added: a GPU board and a processor package are two numbers, and neither is the machine. A
counter that cannot be read gives a reason, never an estimate from nameplate power.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from twinlens.record.executor.record import Fact, observed
from twinlens.system.nvml import Gpu, open_gpus

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


class BoardMeter:
    """The energy counter of one GPU board: `read` gives it, in `per_j` to the joule. None where it is refused or went
    back (driver reload)."""

    def __init__(self, uuid: str, read: Callable[[], float | None], per_j: float) -> None:
        self.scope, self.period_s = f"gpu:{uuid}", NVML_PERIOD_S
        self._read, self._per_j, self._first = read, per_j, read()

    def joules(self) -> float | None:
        now = self._read()
        return None if now is None or self._first is None or now < self._first else (now - self._first) / self._per_j


def open_meters(
    gpus: Sequence[Gpu] | None = None,
    powercap: Path = Path("/sys/class/powercap"),
    boards: Sequence[str] | None = None,
) -> Meters:
    """Every counter readable here. `gpus` None opens those that NVML sees. `boards`: identifiers (UUID or bus address)
    of the boards that a run uses, so that no other maker's board is charged to it either, and none of them is where one
    cannot be read (a refused counter, another node); None: all there are."""
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
            meters.append(BoardMeter(gpu.uuid, gpu.energy_mj, 1e3))
    packages, reason = open_rapl(powercap)
    if reason:
        reasons["RAPL"] = reason
    amd, reason = _open_amd(boards)
    if reason:
        reasons["AMD SMI"] = reason
    of_boards = (*meters, *amd)
    if boards and 0 < len(of_boards) < len(boards):  # a part of the sum would be read as the whole
        reasons = {"GPU energy": f"counters of {len(of_boards)} of {len(boards)} boards can be read here"} | reasons
        of_boards = ()
    return Meters((*of_boards, *packages), reasons)


def _gpu_refusal(gpu: Gpu) -> str | None:
    if gpu.energy_mj() is None:
        return "this board or driver has no energy counter"
    mig = gpu.ask("nvmlDeviceGetMigMode")
    return "the board is partitioned (MIG): its counter covers neighbours too" if mig and mig[0] else None


def _open_amd(boards: Sequence[str] | None) -> tuple[tuple[BoardMeter, ...], str | None]:
    if boards is not None and not boards:
        return (), "the run uses no GPU"
    try:
        import amdsmi  # type: ignore[import-not-found,unused-ignore]
    except Exception as error:  # its import loads a driver library and fails in its own ways
        return (), f"amdsmi cannot be imported ({type(error).__name__})"
    return amd_meters(amdsmi, boards)


def amd_meters(library: Any, boards: Sequence[str] | None) -> tuple[tuple[BoardMeter, ...], str | None]:
    """A meter for each of `boards` (None: of all) over any object with AMD SMI's names, or none and why."""
    try:
        library.amdsmi_init()
        handles = list(library.amdsmi_get_processor_handles())
        if boards is not None:
            wanted = {_bare(name) for name in boards}
            handles = [handle for handle in handles if wanted & _names_of(library, handle)]
        meters = tuple(_amd_meter(library, handle) for handle in handles)
    except library.AmdSmiException as error:
        return (), str(error)
    return meters, None if meters else "no AMD GPU of this run"


def _names_of(library: Any, handle: object) -> set[str]:
    """A board by UUID and by bus address: which of the two a framework knows differs."""
    ask = (library.amdsmi_get_gpu_device_uuid, getattr(library, "amdsmi_get_gpu_device_bdf", None))
    return {_bare(str(query(handle))) for query in ask if query is not None}


def _bare(name: str) -> str:
    return name.removeprefix("GPU-").lower()


def _amd_meter(library: Any, handle: object) -> BoardMeter:
    read = library.amdsmi_get_energy_count

    def microjoules() -> float:
        count = read(handle)
        return float(count["energy_accumulator"]) * float(count["counter_resolution"])

    return BoardMeter(str(library.amdsmi_get_gpu_device_uuid(handle)), microjoules, 1e6)


def energy_facts(meters: Meters, scope: str | None = None) -> dict[str, Fact]:
    """The source and boundary of energy readings; "none" with the reasons is an observation.

    `scope`: "gpu" or "package", what this run is charged with; None: whatever is open (who is this machine).
    """
    open_here = [meter for meter in meters.meters if scope is None or meter.scope.partition(":")[0] == scope]
    if not open_here:
        return {
            "power.source": observed("none", meters.why()),
            "power.boundary": observed("none", meters.why()),
        }
    kinds = sorted({meter.scope.partition(":")[0] for meter in open_here})
    sources = {"gpu": "GPU energy counter", "package": "RAPL package counter"}
    return {
        "power.source": observed([sources.get(kind, kind) for kind in kinds], "open meters"),
        "power.boundary": observed([_SCOPE_NAMES.get(kind, kind) for kind in kinds], "open meters"),
    }


# Processor package energy from the kernel's powercap files (RAPL; AMD's counters carry the same names).
#
# Files as in Documentation/power/powercap of the Linux kernel: `name`, `energy_uj`, `max_energy_range_uj`.

RAPL_PERIOD_S = 0.001  # the counter moves about once a millisecond


class PackageMeter:
    """One package domain; a counter that falls has wrapped once since the reading before.

    Readings must come more often than the counter wraps (about a minute at full power on large parts).
    """

    def __init__(self, folder: Path, package: str) -> None:
        self.scope, self.period_s = f"package:{package}", RAPL_PERIOD_S
        self._file = folder / "energy_uj"
        self._range_uj = int((folder / "max_energy_range_uj").read_text())
        self._last_uj = int(self._file.read_text())
        self._total_uj = 0
        self._lock = threading.Lock()  # the telemetry thread reads too, so that no wrap is missed

    def joules(self) -> float | None:
        with self._lock:
            try:
                now_uj = int(self._file.read_text())
            except (OSError, ValueError):
                return None
            step_uj = now_uj - self._last_uj
            self._total_uj += step_uj if step_uj >= 0 else step_uj + self._range_uj
            self._last_uj = now_uj
            return self._total_uj / 1e6


def open_rapl(powercap: Path) -> tuple[tuple[PackageMeter, ...], str | None]:
    """One meter per package, or none and why. Core, uncore and DRAM domains and `psys` are not read.

    They overlap with the package or cover more than it; a sum over them counts the same joule twice.
    """
    if not powercap.is_dir():
        return (), "no powercap folder: a virtual machine, or a system without RAPL"
    meters: list[PackageMeter] = []
    refused: str | None = None
    for folder in sorted(powercap.glob("intel-rapl:*")):
        try:
            name = (folder / "name").read_text().strip()
            if name.startswith("package-"):
                meters.append(PackageMeter(folder, name.removeprefix("package-").replace("-die-", ".")))
        except PermissionError:
            refused = "permission denied: energy_uj is readable only by the superuser since CVE-2020-8694"
        except (OSError, ValueError) as error:
            refused = f"{folder.name} cannot be read ({type(error).__name__})"
    return tuple(meters), None if meters else refused or "no package domain under powercap"
