"""NVIDIA GPUs through NVML: who they are and what they read now. The one place that imports pynvml.

Every query may be refused on some board, driver or partition; a refused one is None, never 0.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

_OPENING = threading.Lock()
_MOST_LINKS = 36  # NVML_NVLINK_MAX_LINKS in nvml.h of 13.0
# What a MIG slice has of its own; all else is the board's, which it shares.
_OF_A_SLICE = (
    *("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetComputeRunningProcesses"),
    *("nvmlDeviceGetUUID", "nvmlDeviceGetName"),
)


class Gpu:
    """One device behind NVML (`nvml` is pynvml or recorded readings with its names).

    `board`: the handle of the board that a MIG slice is cut from, which answers what a slice has not of its own.
    """

    def __init__(self, nvml: Any, handle: Any, board: Any = None) -> None:
        self.nvml, self.handle, self._board = nvml, handle, board
        self.uuid = str(self.ask("nvmlDeviceGetUUID") or "not said")

    def ask(self, name: str, *arguments: Any) -> Any:
        """One query by its NVML name, or None where this board or driver refuses it."""
        answer = self._ask(self.handle, name, *arguments)
        return self._ask(self._board, name, *arguments) if answer is None and self._shares(name) else answer

    @property
    def is_slice(self) -> bool:
        """Whether this is a MIG slice of a board."""
        return self._board is not None

    @property
    def is_cut(self) -> bool:
        """Whether this board is cut into MIG slices."""
        mig = self.ask("nvmlDeviceGetMigMode")
        return bool(mig and mig[0])

    @property
    def name(self) -> str | None:
        """The product's name, None where it is refused."""
        said = self.ask("nvmlDeviceGetName")
        return None if said is None else str(said)

    def links(self) -> int:
        """How many NVLink places NVML's numbering has."""
        return int(getattr(self.nvml, "NVML_NVLINK_MAX_LINKS", _MOST_LINKS))

    def _shares(self, name: str) -> bool:
        return self._board is not None and name not in _OF_A_SLICE

    def _ask(self, handle: Any, name: str, *arguments: Any) -> Any:
        query: Callable[..., Any] | None = getattr(self.nvml, name, None)
        try:
            return None if query is None else query(handle, *arguments)
        except (self.nvml.NVMLError, TypeError):
            return None

    def ask_system(self, name: str) -> Any:
        """One query that takes no device."""
        try:
            return getattr(self.nvml, name)()
        except (self.nvml.NVMLError, AttributeError):
            return None

    def energy_mj(self) -> int | None:
        """The board's running energy counter in millijoules since the driver was loaded (Volta and later)."""
        counter = self.ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if counter is None else int(counter)

    def power_w(self) -> float | None:
        """Board power in watts; on many boards an average over the last second, not a moment."""
        power_mw = self.ask("nvmlDeviceGetPowerUsage")
        return None if power_mw is None else power_mw / 1e3

    def process_ids(self) -> tuple[int, ...] | None:
        """Processes that compute on this device, ours too."""
        processes = self.ask("nvmlDeviceGetComputeRunningProcesses")
        return None if processes is None else tuple(int(process.pid) for process in processes)

    def reading(self) -> dict[str, Any]:
        """Telemetry columns now: power, energy, temperature, clocks, activity, memory, throttle bits."""
        activity, memory = self.ask("nvmlDeviceGetUtilizationRates"), self.ask("nvmlDeviceGetMemoryInfo")
        bits = self.ask("nvmlDeviceGetCurrentClocksEventReasons")
        return {
            "power_w": self.power_w(),
            "energy_mj": self.energy_mj(),
            "temperature_c": self.ask("nvmlDeviceGetTemperature", 0),
            "sm_mhz": self.ask("nvmlDeviceGetClockInfo", 1),
            "mem_mhz": self.ask("nvmlDeviceGetClockInfo", 2),
            "utilisation": None if activity is None else activity.gpu / 100,
            "memory_used_bytes": None if memory is None else int(memory.used),
            "throttle_bits": self.ask("nvmlDeviceGetCurrentClocksThrottleReasons") if bits is None else bits,
        }


def open_gpus(uuids: Sequence[str] | None = None) -> tuple[tuple[Gpu, ...], str | None]:
    """The GPUs that NVML sees (only `uuids`, if given), or none and why. By UUID, never by CUDA's index."""
    try:
        import pynvml
    except ImportError:
        return (), "nvidia-ml-py is not installed (pip install nvidia-ml-py)"
    return gpus_of(pynvml, uuids)


def has_nvml() -> bool:
    """Whether NVML's bindings are installed, and so whether "no GPU" is its answer or nobody's."""
    return "pynvml" in sys.modules or find_spec("pynvml") is not None


def gpus_of(nvml: Any, uuids: Sequence[str] | None = None) -> tuple[tuple[Gpu, ...], str | None]:
    """The same over any object with NVML's names."""
    try:
        with _OPENING:  # NVML counts its openings; two threads may open it at once
            nvml.nvmlInit()
        gpus = tuple(Gpu(nvml, nvml.nvmlDeviceGetHandleByIndex(i)) for i in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError as error:
        return (), str(error)
    if uuids is not None:
        wanted = [_bare(uuid) for uuid in uuids]
        whole = tuple(gpu for gpu in gpus if _bare(gpu.uuid) in wanted)
        sliced = {name for name in wanted if name not in {_bare(gpu.uuid) for gpu in whole}}
        gpus = (*whole, *(gpu for name in sorted(sliced) if (gpu := _slice(nvml, name)) is not None))
    return gpus, None if gpus else "NVML sees no such GPU"


def _bare(uuid: str) -> str:
    """Without its kind: torch puts "GPU-" before the identifier of a slice too."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-")


def _slice(nvml: Any, bare: str) -> Gpu | None:
    """The MIG slice of this identifier with its board: a slice has no index of its own among the devices."""
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(f"MIG-{bare}")
        return Gpu(nvml, handle, nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle))
    except (nvml.NVMLError, AttributeError):
        return None
