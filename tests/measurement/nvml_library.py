"""A stand-in for libnvidia-ml.so under nvidia-ml-py itself: GPM calls that take and fill its ctypes values.

pynvml looks functions up in the shared library by name and passes pointers; this object has the names, and reaches
through `byref` as C would. Everything above it is nvidia-ml-py's own code.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml

PERCENT = {
    pynvml.NVML_GPM_METRIC_SM_UTIL: 80.0,
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: 30.0,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 55.0,
    pynvml.NVML_GPM_METRIC_HMMA_TENSOR_UTIL: 54.0,
    pynvml.NVML_GPM_METRIC_IMMA_TENSOR_UTIL: 0.0,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 90.0,
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 2.0,
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: 4.0,
}
"""What one interval says: per cent, and MiB/s over PCIe. NVLink is not among it: that board has none."""


class SharedLibrary:
    """`supported`: whether the board has GPM. `refuses`: the next reading of a sample fails. `calls`: in order."""

    def __init__(self, supported: bool = True) -> None:
        self.supported, self.refuses = supported, False
        self.calls: list[str] = []
        self.live: set[int] = set()
        self._memory: list[Any] = []

    def nvmlGpmQueryDeviceSupport(self, handle: Any, answer: Any) -> int:
        assert answer._obj.version == pynvml.NVML_GPM_SUPPORT_VERSION == 1
        answer._obj.isSupportedDevice = int(self.supported)
        return pynvml.NVML_SUCCESS

    def nvmlGpmSampleAlloc(self, answer: Any) -> int:
        memory = ctypes.create_string_buffer(8)
        self._memory.append(memory)
        place = ctypes.addressof(answer._obj)
        ctypes.memmove(place, ctypes.byref(ctypes.c_void_p(ctypes.addressof(memory))), ctypes.sizeof(ctypes.c_void_p))
        self.live.add(ctypes.addressof(memory))
        return pynvml.NVML_SUCCESS

    def nvmlGpmSampleFree(self, sample: Any) -> int:
        self.live.remove(_address(sample))
        return pynvml.NVML_SUCCESS

    def nvmlGpmSampleGet(self, handle: Any, sample: Any) -> int:
        assert _address(sample) in self.live
        self.calls.append("sample")
        refused, self.refuses = self.refuses, False
        return pynvml.NVML_ERROR_UNKNOWN if refused else pynvml.NVML_SUCCESS

    def nvmlGpmMetricsGet(self, asked: Any) -> int:
        wanted = asked._obj
        assert isinstance(wanted, pynvml.c_nvmlGpmMetricsGet_t)
        assert wanted.version == pynvml.NVML_GPM_METRICS_GET_VERSION == 1
        assert {_address(wanted.sample1), _address(wanted.sample2)} == self.live, "two samples, and not one twice"
        self.calls.append("metrics")
        for metric in wanted.metrics[: wanted.numMetrics]:
            known = PERCENT.get(metric.metricId)
            metric.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED if known is None else pynvml.NVML_SUCCESS
            metric.value = 7e7 if known is None else known
        return pynvml.NVML_SUCCESS


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0
