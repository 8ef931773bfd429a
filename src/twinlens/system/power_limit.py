"""Power limits that may be set: of GPU boards through NVML, of processor packages through powercap.

NVML: nvmlDeviceGetPowerManagementLimit and its siblings, in milliwatts. powercap: `constraint_N_power_limit_uw` of the
long-term constraint of each package (Documentation/power/powercap of the Linux kernel), in microwatts. Both let only
the superuser set it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.system.nvml import Gpu, open_gpus

POWERCAP = Path("/sys/class/powercap")
REFUSED = "TL266"
_PER_W = {"gpu": 1_000, "package": 1_000_000}
_LEAST_SHARE = 0.1
"""Of a package's most, where powercap names no least: below it no processor does useful work."""


@dataclass(frozen=True, slots=True)
class PowerLimit:
    """The limit of one device as it is now. `device`: "gpu:UUID" or "package:FOLDER" of powercap. `units`: in the
    unit of the driver (mW of NVML, µW of powercap), so that exactly this can be set again."""

    device: str
    units: int
    least_w: float
    most_w: float

    @property
    def now_w(self) -> float:
        return self.units / _PER_W[kind_of(self.device)]

    def raw_of(self, watts: float) -> int:
        """A limit in the driver's unit. Raises BadInput (TL266) outside the range of the device."""
        if not self.least_w <= watts <= self.most_w:
            raise BadInput(
                f"executor.power_limit_w = {watts:g} is outside {self.least_w:g} to {self.most_w:g} W, which is what "
                f"{self.device} takes",
                code=REFUSED,
            )
        return round(watts * _PER_W[kind_of(self.device)])


def kind_of(device: str) -> str:
    """ "gpu" or "package"."""
    return device.partition(":")[0]


def limits_of_gpus(gpus: Sequence[Gpu]) -> tuple[PowerLimit, ...]:
    """The limits of these boards. Raises BadInput (TL266) with the reason why one cannot be set."""
    return tuple(_limit_of(gpu) for gpu in gpus)


def _limit_of(gpu: Gpu) -> PowerLimit:
    now = gpu.ask("nvmlDeviceGetPowerManagementLimit")
    ends = gpu.ask("nvmlDeviceGetPowerManagementLimitConstraints")
    if gpu.is_slice:
        raise _refusal(f"gpu:{gpu.uuid}", "a MIG slice shares the limit of its board with others")
    if now is None or ends is None:
        raise _refusal(f"gpu:{gpu.uuid}", "NVML tells no limit or no range of it on this board")
    least, most = (end / _PER_W["gpu"] for end in ends)
    return PowerLimit(f"gpu:{gpu.uuid}", int(now), least, most)


def limits_of_packages(powercap: Path = POWERCAP) -> tuple[PowerLimit, ...]:
    """The limits of all processor packages. Raises BadInput (TL266) with the reason why one cannot be set."""
    folders = [folder for folder in sorted(powercap.glob("intel-rapl:*")) if _is_package(folder)]
    if not folders:
        raise _refusal("the processor", f"there is no package under {powercap} (a virtual machine, or no RAPL)")
    return tuple(map(_limit_in, folders))


def package_limit_w(powercap: Path = POWERCAP) -> float | None:
    """The lowest limit of a processor package now; None where none can be read."""
    words = [_word(_file_of(folder)) for folder in powercap.glob("intel-rapl:*") if _is_package(folder)]
    return min((int(word) / 1e6 for word in words if word and word.isdigit()), default=None)


def _is_package(folder: Path) -> bool:
    return (_word(folder / "name") or "").startswith("package-")


def _limit_in(folder: Path) -> PowerLimit:
    device, file = f"package:{folder.name}", _file_of(folder)
    if _word(folder / "enabled") == "0":
        raise _refusal(device, "its limit is switched off (enabled is 0)")
    now, most = _word(file), _word(file.with_name(file.name.replace("power_limit", "max_power")))
    if now is None or not now.isdigit():
        raise _refusal(device, f"{file.name} cannot be read")
    if not os.access(file, os.W_OK):
        raise _refusal(device, f"{file.name} may not be written: only the superuser may, and no container")
    most_uw = int(most) if most and most.isdigit() and int(most) else int(now)  # none named: no more than there was
    return PowerLimit(device, int(now), _LEAST_SHARE * most_uw / 1e6, most_uw / 1e6)


def _file_of(folder: Path) -> Path:
    """The file of the long-term constraint; the first one where none has that name."""
    names = {_word(file): file for file in sorted(folder.glob("constraint_*_name"), reverse=True)}
    number = names.get("long_term", folder / "constraint_0_name").name.split("_")[1]
    return folder / f"constraint_{number}_power_limit_uw"


def read_raw(device: str, powercap: Path = POWERCAP) -> int | None:
    """The limit of a device now, in the driver's unit; None where it cannot be read."""
    kind, _, name = device.partition(":")
    if kind == "package":
        word = _word(_file_of(powercap / name))
        return int(word) if word and word.isdigit() else None
    gpu = _board(name)
    return None if gpu is None else gpu.ask("nvmlDeviceGetPowerManagementLimit")


def write_raw(device: str, raw: int, powercap: Path = POWERCAP) -> None:
    """Set the limit of a device. Raises BadInput (TL266) with the driver's reason."""
    kind, _, name = device.partition(":")
    if kind == "package":
        try:
            _file_of(powercap / name).write_text(str(raw))
        except OSError as error:
            raise _refusal(device, str(error.strerror or error)) from None
        return
    gpu = _board(name)
    if gpu is None:
        raise _refusal(device, "NVML does not see it any more")
    try:
        gpu.nvml.nvmlDeviceSetPowerManagementLimit(gpu.handle, raw)
    except gpu.nvml.NVMLError as error:
        raise _refusal(device, f"NVML says {error} (only the superuser may)") from None


def _board(uuid: str) -> Gpu | None:
    found: Any = next(iter(open_gpus([uuid])[0]), None)
    return found  # type: ignore[no-any-return]


def _word(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None


def _refusal(device: str, why: str) -> BadInput:
    return BadInput(f"the power limit of {device} cannot be set: {why}", code=REFUSED)
