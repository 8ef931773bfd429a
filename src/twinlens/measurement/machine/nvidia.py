"""NVIDIA boards through NVML: the board that CUDA calls by a number, its facts, and counters that it derives (GPM)."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twinlens.executors.launch.recipe import MASK, gpu_environment
from twinlens.executors.launch.replicas import uuids_in_cudas_order
from twinlens.record.executor.record import Fact, observed, unknown
from twinlens.spec.device import AskedDevice
from twinlens.system.nvml import Gpu, open_gpus


def board_of(device: AskedDevice, gpus: Sequence[Gpu], environment: Mapping[str, str] = os.environ) -> Gpu | None:
    """The device that CUDA will call `device` ("cuda", "auto": the first), through the mask of this process.

    None where that is not known: CUDA numbers mixed boards by speed, NVML by bus address, and a board cut into MIG
    slices has as many devices as it has slices.
    """
    entry = gpu_environment(AskedDevice("cuda", device.index or 0), environment)[MASK]
    known = uuids_in_cudas_order(gpus, environment)
    if entry.isdigit():
        return gpus[int(entry)] if int(entry) < len(known) else None
    return next(iter(open_gpus([entry])[0]), None)


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
    return facts | _answers(first) | _device(first) | _links(first) | _power(first) | _driver(first)


def _fact(value: Any, source: str) -> Fact:
    return unknown(f"{source} is refused on this board or driver") if value is None else observed(value, source)


def _form_factor(product: str) -> Fact:
    """NVML has no such field; the product's name says it on data-centre boards."""
    word = next((name for name in ("SXM", "PCIe", "HGX", "NVL") if name.lower() in product.lower()), None)
    return unknown("the product's name does not say") if word is None else observed(word, "product name")


_ASKED: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("accelerator.memory_bytes", "nvmlDeviceGetMemoryInfo", lambda memory: int(memory.total)),
    ("accelerator.ecc", "nvmlDeviceGetEccMode", lambda modes: bool(modes[0])),
    ("accelerator.firmware", "nvmlDeviceGetVbiosVersion", lambda version: version),
    ("interconnect.pcie_lanes", "nvmlDeviceGetCurrPcieLinkWidth", lambda lanes: lanes),
    ("power.limit_w", "nvmlDeviceGetEnforcedPowerLimit", lambda limit_mw: limit_mw / 1e3),
    ("power.default_limit_w", "nvmlDeviceGetPowerManagementDefaultLimit", lambda limit_mw: limit_mw / 1e3),
    ("power.persistence", "nvmlDeviceGetPersistenceMode", bool),
)
"""Facts that are one answer of NVML each, and how it is read."""


def _answers(gpu: Gpu) -> dict[str, Fact]:
    told = ((name, query, gpu.ask(query), read) for name, query, read in _ASKED)
    return {name: _fact(None if value is None else read(value), query) for name, query, value, read in told}


def _device(gpu: Gpu) -> dict[str, Fact]:
    capability, mig = gpu.ask("nvmlDeviceGetCudaComputeCapability"), gpu.ask("nvmlDeviceGetMigMode")
    family = _ARCHITECTURES.get(gpu.ask("nvmlDeviceGetArchitecture") or 0)
    described = None if capability is None else f"compute capability {capability[0]}.{capability[1]}"
    named = described and f"{described}{f' ({family})' if family else ''}"
    return {
        "accelerator.architecture": _fact(named, "nvmlDeviceGetCudaComputeCapability"),
        "accelerator.memory_bytes_per_s_spec": _fact(_clocked(gpu), _CLOCKED),
        "accelerator.memory_type": unknown("NVML does not name the memory type"),
        "accelerator.partition": observed("MIG slice", "nvmlDeviceGetHandleByUUID")
        if gpu.is_slice
        else _fact(_partition(mig), "nvmlDeviceGetMigMode"),
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
    }


def _power(gpu: Gpu) -> dict[str, Fact]:
    now = gpu.reading()
    clocks = {name: now[name] for name in ("sm_mhz", "mem_mhz") if now[name] is not None}
    return {
        "power.clock_lock": _clock_lock(gpu),
        "power.max_sm_mhz": _fact(gpu.ask("nvmlDeviceGetMaxClockInfo", 1), "nvmlDeviceGetMaxClockInfo"),
        "power.clocks_now": _fact(clocks or None, "nvmlDeviceGetClockInfo"),
        "thermal.temperature_c": _fact(now["temperature_c"], "nvmlDeviceGetTemperature"),
        "thermal.throttle": _fact(now["throttle_bits"], "nvmlDeviceGetCurrentClocksEventReasons"),
    }


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


# Counters of an NVIDIA board that NVML derives itself (GPM; Hopper and later): tensor pipes, DRAM, PCIe, NVLink.
#
# NO GPU HAS RUN THIS. It is written against nvml.h and nvidia-ml-py, whose own types and calls the tests go through,
# with a stand-in for the shared library; `python -m benchmarks.gpu_check --only gpm` is for the first device.

LEAST_INTERVAL_NS = 100_000_000
"""Between two samples, after NVML's own documentation of nvmlGpmMetricsGet: its counters are refreshed that often."""
_PERCENT, _MIB = 0.01, float(1 << 20)
_METRICS = {
    "sm_active": ("NVML_GPM_METRIC_SM_UTIL", _PERCENT),
    "sm_occupancy": ("NVML_GPM_METRIC_SM_OCCUPANCY", _PERCENT),
    "tensor_active": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", _PERCENT),
    "hmma_active": ("NVML_GPM_METRIC_HMMA_TENSOR_UTIL", _PERCENT),
    "imma_active": ("NVML_GPM_METRIC_IMMA_TENSOR_UTIL", _PERCENT),
    "dram_active": ("NVML_GPM_METRIC_DRAM_BW_UTIL", _PERCENT),
    "pcie_tx_bytes_per_s": ("NVML_GPM_METRIC_PCIE_TX_PER_SEC", _MIB),
    "pcie_rx_bytes_per_s": ("NVML_GPM_METRIC_PCIE_RX_PER_SEC", _MIB),
    "nvlink_tx_bytes_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", _MIB),
    "nvlink_rx_bytes_per_s": ("NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", _MIB),
}
"""Telemetry column to NVML's name of the metric, and what one of NVML's units is: per cent, or MiB/s."""


class Gpm:
    """Means of one board between two readings, from two samples that take turns as the earlier one.

    `nvml`: pynvml, or whatever has its names. One thread at a time. Raises NVMLError where the board has no GPM.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        known = {name: (getattr(nvml, metric, None), scale) for name, (metric, scale) in _METRICS.items()}
        self._asked = [(name, number, scale) for name, (number, scale) in known.items() if number is not None]
        self._earlier, self._later = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
        self._earlier_ns: int | None = None

    def restart(self) -> None:
        """What was counted until now belongs to no reading."""
        self._earlier_ns = None

    def read(self, now_ns: int) -> Mapping[str, float]:
        """Telemetry columns of the time since the reading before; empty at the first and before 0.1 s have passed.

        A metric that this board does not have is left out, and so is all where a call fails: the next one starts again.
        """
        if self._earlier_ns is not None and now_ns - self._earlier_ns <= LEAST_INTERVAL_NS:
            return {}
        try:
            self._nvml.nvmlGpmSampleGet(self._handle, self._later)
            found = {} if self._earlier_ns is None else self._between()
        except self._nvml.NVMLError:
            self.restart()
            return {}
        self._earlier, self._later, self._earlier_ns = self._later, self._earlier, now_ns
        return found

    def close(self) -> None:
        """Give the samples back; nothing may be read after it."""
        for sample in (self._earlier, self._later):
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(sample)

    def _between(self) -> dict[str, float]:
        wanted = self._nvml.c_nvmlGpmMetricsGet_t()
        wanted.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        wanted.sample1, wanted.sample2 = self._earlier, self._later
        wanted.numMetrics = len(self._asked)
        for place, (_, number, _scale) in enumerate(self._asked):
            wanted.metrics[place].metricId = number
        self._nvml.nvmlGpmMetricsGet(wanted)
        told = zip(self._asked, wanted.metrics, strict=False)  # the array has places for every metric there is
        return {
            name: metric.value * scale
            for (name, _, scale), metric in told
            if metric.nvmlReturn == self._nvml.NVML_SUCCESS and math.isfinite(metric.value)
        }


def open_gpm(gpu: Gpu) -> Gpm | None:
    """The counters of this board, or None where it has none. Of a MIG slice NVML asks for them another way, which is
    not written."""
    support = None if gpu.is_slice else gpu.ask("nvmlGpmQueryDeviceSupport")
    if support is None or not support.isSupportedDevice:
        return None
    try:
        return Gpm(gpu.nvml, gpu.handle)
    except (gpu.nvml.NVMLError, AttributeError):
        return None
