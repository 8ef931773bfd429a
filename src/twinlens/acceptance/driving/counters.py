"""Counters of errors as a device tells them now: of GPUs through NVML, of the processor from /sys and its sensors.

A counter that cannot be read says why, and one that a device of its kind does not have is named as that: neither is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from twinlens.system.nvml import Gpu

PROCESSOR = "cpu"
_SYS = Path("/sys/devices/system")
_REFUSED = "NVML refuses it on this board or driver"
_NO_LINKS = "NVML names no link between devices here"
_LINK_KINDS = (0, 1, 2, 3)  # nvmlNvLinkErrorCounter_t: replays, recoveries, flits and data with a wrong checksum
_CORRECTED, _UNCORRECTED, _SINCE_MADE, _SINCE_DRIVER = 0, 1, 1, 0
_NOT_OF_A_PROCESSOR = ("xid", "pcie_replays", "pcie_width", "pcie_generation", "link_errors")


@dataclass(frozen=True, slots=True)
class Reading:
    """One device now. `counters`: totals and states by the names of `criteria.COUNTERS` and more; `missing`: why one of
    them, or "temperature", could not be read; `has_not`: those that a device of its kind does not have. `kind`: its
    model."""

    device: str
    counters: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    has_not: tuple[str, ...] = ()
    temperature_c: float | None = None
    kind: str = ""


class Xids:
    """Errors that the driver reports while this is open (NVML's events of kind Xid), by UUID of their board."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._seen: dict[str, int] = {}
        self.why = "" if gpus else "there is no GPU"
        self._set = self._nvml = None
        whole = [gpu for gpu in gpus if not gpu.is_slice]
        if not whole:
            return
        self._nvml = nvml = whole[0].nvml
        try:
            self._set = nvml.nvmlEventSetCreate()
            for gpu in whole:
                nvml.nvmlDeviceRegisterEvents(gpu.handle, nvml.nvmlEventTypeXidCriticalError, self._set)
        except (nvml.NVMLError, AttributeError) as error:
            self.why, self._set = f"NVML tells no Xid events here ({error})", None

    def read(self, gpu: Gpu) -> int | None:
        """Those of a board since this was opened; None where none can be told (`why`)."""
        if self._set is None or self._nvml is None or gpu.is_slice:
            return None
        self._take(self._nvml)
        return self._seen.get(gpu.uuid, 0)

    def _take(self, nvml: Any) -> None:
        while True:
            try:
                event = nvml.nvmlEventSetWait_v2(self._set, 0)
            except (nvml.NVMLError, AttributeError):  # nothing more is waiting
                return
            uuid = str(nvml.nvmlDeviceGetUUID(event.device))
            self._seen[uuid] = self._seen.get(uuid, 0) + 1


def read_all(gpus: Sequence[Gpu], xids: Xids, sys: Path = _SYS) -> tuple[Reading, ...]:
    """The processor first, then every GPU."""
    return (read_processor(sys), *(read_gpu(gpu, xids) for gpu in gpus))


def read_gpu(gpu: Gpu, xids: Xids) -> Reading:
    """A board, or a slice of one, whose counters are those of its board."""
    rows = gpu.ask("nvmlDeviceGetRemappedRows")
    found: dict[str, int | None] = {
        "ecc_corrected": _ecc(gpu, _CORRECTED),
        "ecc_uncorrected": _ecc(gpu, _UNCORRECTED),
        "remapped_rows": None if rows is None else int(rows[0]) + int(rows[1]),
        "retired_pages": _retired(gpu),
        "xid": xids.read(gpu),
        "pcie_replays": gpu.ask("nvmlDeviceGetPcieReplayCounter"),
        "pcie_width": gpu.ask("nvmlDeviceGetCurrPcieLinkWidth"),
        "pcie_generation": gpu.ask("nvmlDeviceGetCurrPcieLinkGeneration"),
    }
    errors, has_links = _links(gpu)
    found |= {"link_errors": errors} if has_links else {}
    reasons = {"xid": xids.why or "of a slice of a board NVML tells none"}
    temperature = gpu.ask("nvmlDeviceGetTemperature", 0)
    missing = {name: reasons.get(name, _REFUSED) for name, value in found.items() if value is None}
    return Reading(
        device=f"gpu:{gpu.uuid}",
        counters={name: int(value) for name, value in found.items() if value is not None},
        missing=missing | ({"temperature": _REFUSED} if temperature is None else {}),
        has_not=() if has_links else ("link_errors",),
        temperature_c=None if temperature is None else float(temperature),
        kind=gpu.name or "",
    )


def _ecc(gpu: Gpu, kind: int) -> int | None:
    """Memory errors since the board was made or, where that is refused, since its driver was loaded."""
    since_made = gpu.ask("nvmlDeviceGetTotalEccErrors", kind, _SINCE_MADE)
    told = gpu.ask("nvmlDeviceGetTotalEccErrors", kind, _SINCE_DRIVER) if since_made is None else since_made
    return None if told is None else int(told)


def _retired(gpu: Gpu) -> int | None:
    pages = [gpu.ask("nvmlDeviceGetRetiredPages", cause) for cause in (0, 1)]
    known = [each for each in pages if each is not None]
    return sum(map(len, known)) if known else None


def _links(gpu: Gpu) -> tuple[int | None, bool]:
    """Errors of all active NVLinks together, and whether there is one; None where an active one tells none."""
    active = [link for link in range(gpu.links()) if gpu.ask("nvmlDeviceGetNvLinkState", link)]
    told = [gpu.ask("nvmlDeviceGetNvLinkErrorCounter", link, kind) for link in active for kind in _LINK_KINDS]
    known = [int(each) for each in told if each is not None]
    return (sum(known) if known else None), bool(active)


def read_processor(sys: Path = _SYS) -> Reading:
    """Throttling of cores and packages, memory errors of the memory controllers (EDAC), and the hottest sensor."""
    found = {
        "core_throttles": _sum(sys.glob("cpu/cpu*/thermal_throttle/core_throttle_count")),
        "package_throttles": _package_throttles(sys),
        "ecc_corrected": _sum(sys.glob("edac/mc/mc*/ce_count")),
        "ecc_uncorrected": _sum(sys.glob("edac/mc/mc*/ue_count")),
    }
    throttle, edac = sys / "cpu/cpu*/thermal_throttle", sys / "edac/mc"
    where = {"core_throttles": throttle, "package_throttles": throttle, "ecc_corrected": edac, "ecc_uncorrected": edac}
    missing = {name: f"this kernel has no {where[name]}" for name, value in found.items() if value is None}
    hottest = _temperature()
    return Reading(
        device=PROCESSOR,
        counters={name: value for name, value in found.items() if value is not None},
        missing=missing | ({"temperature": "this kernel has no sensor of temperature"} if hottest is None else {}),
        has_not=_NOT_OF_A_PROCESSOR,
        temperature_c=hottest,
        kind="processor",
    )


def _package_throttles(sys: Path) -> int | None:
    """Each package counts once, whichever of its processors tells it."""
    packages: dict[str, int] = {}
    for path in sys.glob("cpu/cpu*/thermal_throttle/package_throttle_count"):
        value = _number(path)
        if value is not None:
            package = _text(path.parent.parent / "topology/physical_package_id") or "0"
            packages[package] = max(packages.get(package, 0), value)
    return sum(packages.values()) if packages else None


def _sum(paths: Iterable[Path]) -> int | None:
    known = [value for path in paths if (value := _number(path)) is not None]
    return sum(known) if known else None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.isdecimal() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _temperature() -> float | None:
    """The hottest sensor of the machine; None where there is none."""
    read = getattr(psutil, "sensors_temperatures", None)
    try:
        told = [each.current for sensors in read().values() for each in sensors] if read else []
    except (OSError, RuntimeError):
        return None
    known = [float(value) for value in told if value is not None and 0 < value < 150]
    return max(known) if known else None
