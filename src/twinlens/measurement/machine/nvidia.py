"""NVIDIA GPUs through NVML: who they are and what they read now. The one place that imports pynvml.

Every query may be refused on some board, driver or partition; a refused one is None, never 0.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twinlens.executors.launch.recipe import gpu_environment
from twinlens.record.executor.record import Fact, observed, unknown

FactMap = dict[str, Fact]
_OPENING = threading.Lock()
_ARCHITECTURES = {5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada", 9: "Hopper", 10: "Blackwell"}  # nvml.h
_MOST_LINKS = 36  # NVML_NVLINK_MAX_LINKS in nvml.h of 13.0
# What a MIG slice has of its own; all else is the board's, which it shares.
_OF_A_SLICE = (
    *("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetComputeRunningProcesses"),
    *("nvmlDeviceGetUUID", "nvmlDeviceGetName"),
)


class Gpu:
    """One device behind NVML (`library` is pynvml or recorded readings with its names).

    `board`: the handle of the board that a MIG slice is cut from, which answers what a slice has not of its own.
    """

    def __init__(self, library: Any, handle: Any, board: Any = None) -> None:
        self._library, self._handle, self._board = library, handle, board
        self.uuid = str(self.ask("nvmlDeviceGetUUID") or "not said")

    def ask(self, name: str, *arguments: Any) -> Any:
        """One query by its NVML name, or None where this board or driver refuses it."""
        answer = self._ask(self._handle, name, *arguments)
        return self._ask(self._board, name, *arguments) if answer is None and self._shares(name) else answer

    @property
    def is_slice(self) -> bool:
        """Whether this is a MIG slice of a board."""
        return self._board is not None

    def links(self) -> int:
        """How many NVLink places NVML's numbering has."""
        return int(getattr(self._library, "NVML_NVLINK_MAX_LINKS", _MOST_LINKS))

    def _shares(self, name: str) -> bool:
        return self._board is not None and name not in _OF_A_SLICE

    def _ask(self, handle: Any, name: str, *arguments: Any) -> Any:
        query: Callable[..., Any] | None = getattr(self._library, name, None)
        try:
            return None if query is None else query(handle, *arguments)
        except (self._library.NVMLError, TypeError):
            return None

    def ask_system(self, name: str) -> Any:
        """One query that takes no device."""
        try:
            return getattr(self._library, name)()
        except (self._library.NVMLError, AttributeError):
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
        return (), "nvidia-ml-py is not installed (the nvidia extra)"
    return gpus_of(pynvml, uuids)


def gpus_of(library: Any, uuids: Sequence[str] | None = None) -> tuple[tuple[Gpu, ...], str | None]:
    """The same over any object with NVML's names."""
    try:
        with _OPENING:  # NVML counts its openings; two threads may open it at once
            library.nvmlInit()
        gpus = tuple(Gpu(library, library.nvmlDeviceGetHandleByIndex(i)) for i in range(library.nvmlDeviceGetCount()))
    except library.NVMLError as error:
        return (), str(error)
    if uuids is not None:
        wanted = [_bare(uuid) for uuid in uuids]
        whole = tuple(gpu for gpu in gpus if _bare(gpu.uuid) in wanted)
        sliced = {name for name in wanted if name not in {_bare(gpu.uuid) for gpu in whole}}
        gpus = (*whole, *(gpu for name in sorted(sliced) if (gpu := _slice(library, name)) is not None))
    return gpus, None if gpus else "NVML sees no such GPU"


def _bare(uuid: str) -> str:
    """Without its kind: torch puts "GPU-" before the identifier of a slice too."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-")


def _slice(library: Any, bare: str) -> Gpu | None:
    """The MIG slice of this identifier with its board: a slice has no index of its own among the devices."""
    try:
        handle = library.nvmlDeviceGetHandleByUUID(f"MIG-{bare}")
        return Gpu(library, handle, library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle))
    except (library.NVMLError, AttributeError):
        return None


def board_of(device: str, gpus: Sequence[Gpu], environment: Mapping[str, str] = os.environ) -> Gpu | None:
    """The device that CUDA will call `device` ("cuda", "auto": the first), through the mask of this process.

    None where that is not known: CUDA numbers mixed boards by speed, NVML by bus address, and a board cut into MIG
    slices has as many devices as it has slices.
    """
    number = device.partition(":")[2] or "0"
    entry = gpu_environment(f"cuda:{number}", environment)["CUDA_VISIBLE_DEVICES"]
    if not entry.isdigit():
        return next(iter(open_gpus([entry])[0]), None)
    same_order = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({_name(gpu) for gpu in gpus}) == 1
    board = gpus[int(entry)] if int(entry) < len(gpus) and same_order else None
    mig = board.ask("nvmlDeviceGetMigMode") if board is not None else None
    return None if mig and mig[0] else board


def _name(gpu: Gpu) -> str:
    return str(gpu.ask("nvmlDeviceGetName"))


def gpu_free_bytes() -> float | None:
    """Free memory of the GPU that has most of it, or None where NVML sees none."""
    memories = [gpu.ask("nvmlDeviceGetMemoryInfo") for gpu in open_gpus()[0]]
    return max((float(memory.free) for memory in memories if memory is not None), default=None)


def gpu_facts(gpus: Sequence[Gpu], reason: str | None) -> FactMap:
    """Accelerator, link, power and driver facts of the first GPU, and how many there are like it.

    Boards that differ in product are listed by product and count.
    """
    if not gpus:
        return {name: unknown(reason or "no GPU") for name in ("accelerator.product", "accelerator.count")}
    first = gpus[0]
    products = [gpu.ask("nvmlDeviceGetName") or "" for gpu in gpus]
    mixed = {product or "not said": products.count(product) for product in sorted(set(products))}
    facts = {
        "accelerator.vendor": observed("NVIDIA", "NVML"),
        "accelerator.product": _fact((products[0] if len(mixed) == 1 else mixed) or None, "nvmlDeviceGetName"),
        "accelerator.count": observed(len(gpus), "NVML"),
        "accelerator.uuid": observed([gpu.uuid for gpu in gpus], "nvmlDeviceGetUUID"),
        "accelerator.form_factor": _form_factor(products[0]),
    }
    return facts | _device(first) | _links(first) | _power(first) | _driver(first)


def _fact(value: Any, source: str) -> Fact:
    return unknown(f"{source} is refused on this board or driver") if value is None else observed(value, source)


def _form_factor(product: str) -> Fact:
    """NVML has no such field; the product's name says it on data-centre boards."""
    word = next((name for name in ("SXM", "PCIe", "HGX", "NVL") if name.lower() in product.lower()), None)
    return unknown("the product's name does not say") if word is None else observed(word, "product name")


def _device(gpu: Gpu) -> FactMap:
    memory, ecc = gpu.ask("nvmlDeviceGetMemoryInfo"), gpu.ask("nvmlDeviceGetEccMode")
    capability, mig = gpu.ask("nvmlDeviceGetCudaComputeCapability"), gpu.ask("nvmlDeviceGetMigMode")
    family = _ARCHITECTURES.get(gpu.ask("nvmlDeviceGetArchitecture") or 0)
    described = None if capability is None else f"compute capability {capability[0]}.{capability[1]}"
    return {
        "accelerator.architecture": _fact(
            described and f"{described}{f' ({family})' if family else ''}",
            "nvmlDeviceGetCudaComputeCapability",
        ),
        "accelerator.memory_bytes": _fact(None if memory is None else int(memory.total), "nvmlDeviceGetMemoryInfo"),
        "accelerator.memory_type": unknown("NVML does not name the memory type"),
        "accelerator.ecc": _fact(None if ecc is None else bool(ecc[0]), "nvmlDeviceGetEccMode"),
        "accelerator.partition": observed("MIG slice", "nvmlDeviceGetHandleByUUID")
        if gpu.is_slice
        else _fact(_partition(mig), "nvmlDeviceGetMigMode"),
        "accelerator.firmware": _fact(gpu.ask("nvmlDeviceGetVbiosVersion"), "nvmlDeviceGetVbiosVersion"),
    }


def _partition(mig: Any) -> str | None:
    return None if mig is None else "MIG" if mig[0] else "none"


def _links(gpu: Gpu) -> FactMap:
    states = [gpu.ask("nvmlDeviceGetNvLinkState", link) for link in range(gpu.links())]
    known = [state for state in states if state is not None]
    return {
        "interconnect.device_link": _fact(
            f"NVLink, {sum(map(bool, known))} links active" if known else None, "nvmlDeviceGetNvLinkState"
        ),
        "interconnect.pcie_generation": _fact(
            gpu.ask("nvmlDeviceGetMaxPcieLinkGeneration"), "nvmlDeviceGetMaxPcieLinkGeneration, as idle links go down"
        ),
        "interconnect.pcie_lanes": _fact(gpu.ask("nvmlDeviceGetCurrPcieLinkWidth"), "nvmlDeviceGetCurrPcieLinkWidth"),
    }


def _power(gpu: Gpu) -> FactMap:
    limit_mw, persistence = (
        gpu.ask("nvmlDeviceGetEnforcedPowerLimit"),
        gpu.ask("nvmlDeviceGetPersistenceMode"),
    )
    now = gpu.reading()
    clocks = {name: now[name] for name in ("sm_mhz", "mem_mhz") if now[name] is not None}
    return {
        "power.limit_w": _fact(None if limit_mw is None else limit_mw / 1e3, "nvmlDeviceGetEnforcedPowerLimit"),
        "power.default_limit_w": _fact(_default_limit_w(gpu), "nvmlDeviceGetPowerManagementDefaultLimit"),
        "power.clock_lock": _clock_lock(gpu),
        "power.persistence": _fact(None if persistence is None else bool(persistence), "nvmlDeviceGetPersistenceMode"),
        "power.max_sm_mhz": _fact(gpu.ask("nvmlDeviceGetMaxClockInfo", 1), "nvmlDeviceGetMaxClockInfo"),
        "power.clocks_now": _fact(clocks or None, "nvmlDeviceGetClockInfo"),
        "thermal.temperature_c": _fact(now["temperature_c"], "nvmlDeviceGetTemperature"),
        "thermal.throttle": _fact(now["throttle_bits"], "nvmlDeviceGetCurrentClocksEventReasons"),
    }


def _default_limit_w(gpu: Gpu) -> float | None:
    limit_mw = gpu.ask("nvmlDeviceGetPowerManagementDefaultLimit")
    return None if limit_mw is None else limit_mw / 1e3


def _clock_lock(gpu: Gpu) -> Fact:
    """Application clocks beside their default. NVML sets locked clocks and does not say whether there are any."""
    asked, usual = (
        gpu.ask(name, 1) for name in ("nvmlDeviceGetApplicationsClock", "nvmlDeviceGetDefaultApplicationsClock")
    )
    if asked is None or usual is None:
        return unknown("application clocks are refused on this board, and NVML has no query for locked clocks")
    source = "nvmlDeviceGetApplicationsClock; a lock by nvidia-smi -lgc cannot be read"
    return observed("none" if asked == usual else f"application clock {asked} MHz, not {usual}", source)


def _driver(gpu: Gpu) -> FactMap:
    driver, version = (
        gpu.ask_system("nvmlSystemGetDriverVersion"),
        gpu.ask_system("nvmlSystemGetCudaDriverVersion_v2"),
    )
    cuda = None if version is None else f"{version // 1000}.{version % 1000 // 10}"
    return {
        "software.driver.version": _fact(driver, "nvmlSystemGetDriverVersion"),
        "software.cuda_driver.version": _fact(cuda, "nvmlSystemGetCudaDriverVersion"),
    }
