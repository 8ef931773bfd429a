"""Processor package energy from the kernel's powercap files (RAPL; AMD's counters carry the same names).

Files as in Documentation/power/powercap of the Linux kernel: `name`, `energy_uj`, `max_energy_range_uj`.
"""

from __future__ import annotations

import threading
from pathlib import Path

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
