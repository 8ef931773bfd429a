"""The counters of a diagnosis from an instrument, where there was one: the bound by theory then stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twinlens.diagnosis.counter import Confidence, Counter
from twinlens.diagnosis.instrument import Instrument, told
from twinlens.record.estimate import Estimate

_FIRST = {"matrix-engines": "tensor_active", "bandwidth": "dram_active", "transfer": "pcie_rx_bytes_per_s"}
_BESIDE = {
    "matrix-engines": ("hmma_active", "imma_active", "sm_active", "sm_occupancy"),
    "bandwidth": (),
    "transfer": ("pcie_tx_bytes_per_s", "nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"),
}


def with_instruments(counters: tuple[Counter, ...], instruments: tuple[Instrument, ...]) -> tuple[Counter, ...]:
    """The same counters; one that an instrument counts has its value, and what theory says as `by_theory` beside it."""
    return tuple(_measured(each, instruments) for each in counters)


def _measured(counter: Counter, instruments: tuple[Instrument, ...]) -> Counter:
    seen = told(instruments, _FIRST.get(counter.id, ""))
    if seen is None:
        return counter
    instrument, value = seen
    theory = {"by_theory": counter.value} if counter.value.value is not None else {}
    more = {name: instrument.values[name] for name in _BESIDE[counter.id] if name in instrument.values}
    beside: Mapping[str, Estimate] = {**theory, **counter.beside, **more}
    return replace(counter, value=value, confidence=_confidence(*seen, _FIRST[counter.id]), source=instrument.source,
                   beside=beside)  # fmt: skip


def _confidence(instrument: Instrument, value: Estimate, name: str) -> Confidence:
    """DCGM renews its figures on its own clock, so that they may be of a time before the window."""
    if not instrument.is_sure(name):
        return "low"
    return "high" if instrument.source == "NVML GPM" else "medium"
