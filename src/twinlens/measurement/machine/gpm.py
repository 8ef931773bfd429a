"""Counters of an NVIDIA board that NVML derives itself (GPM; Hopper and later): tensor pipes, DRAM, PCIe, NVLink.

NO GPU HAS RUN THIS. It is written against nvml.h and nvidia-ml-py, whose own types and calls the tests go through,
with a stand-in for the shared library; `python -m benchmarks.gpu_check --only gpm` is for the first device.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

from twinlens.system.nvml import Gpu

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
