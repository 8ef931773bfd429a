"""Facts of NVIDIA GPUs, as NVML states them: board, links, power, driver. A refused query is an unknown fact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinlens.record.executor.record import Fact, observed, unknown
from twinlens.system.nvml import Gpu

_ARCHITECTURES = {5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada", 9: "Hopper", 10: "Blackwell"}  # nvml.h

_CLOCKED = "2 × nvmlDeviceGetMaxClockInfo × nvmlDeviceGetMemoryBusWidth"


def gpu_facts(gpus: Sequence[Gpu], reason: str | None) -> dict[str, Fact]:
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


def _device(gpu: Gpu) -> dict[str, Fact]:
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
        "accelerator.memory_bytes_per_s_spec": _fact(_clocked(gpu), _CLOCKED),
        "accelerator.memory_type": unknown("NVML does not name the memory type"),
        "accelerator.ecc": _fact(None if ecc is None else bool(ecc[0]), "nvmlDeviceGetEccMode"),
        "accelerator.partition": observed("MIG slice", "nvmlDeviceGetHandleByUUID")
        if gpu.is_slice
        else _fact(_partition(mig), "nvmlDeviceGetMigMode"),
        "accelerator.firmware": _fact(gpu.ask("nvmlDeviceGetVbiosVersion"), "nvmlDeviceGetVbiosVersion"),
    }


def _clocked(gpu: Gpu) -> float | None:
    """What the memory gives at its highest clock: two transfers a clock, as NVML counts those of GDDR and HBM."""
    mhz, bits = gpu.ask("nvmlDeviceGetMaxClockInfo", 2), gpu.ask("nvmlDeviceGetMemoryBusWidth")
    return 2e6 * mhz * bits / 8 if mhz and bits else None


def _partition(mig: Any) -> str | None:
    return None if mig is None else "MIG" if mig[0] else "none"


def _links(gpu: Gpu) -> dict[str, Fact]:
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


def _power(gpu: Gpu) -> dict[str, Fact]:
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


def _driver(gpu: Gpu) -> dict[str, Fact]:
    driver, version = (
        gpu.ask_system("nvmlSystemGetDriverVersion"),
        gpu.ask_system("nvmlSystemGetCudaDriverVersion_v2"),
    )
    cuda = None if version is None else f"{version // 1000}.{version % 1000 // 10}"
    return {
        "software.driver.version": _fact(driver, "nvmlSystemGetDriverVersion"),
        "software.cuda_driver.version": _fact(cuda, "nvmlSystemGetCudaDriverVersion"),
    }
