"""The four counters in words: their names, and each value with what it is held against."""

from __future__ import annotations

from twinlens.diagnosis.counter import Counter
from twinlens.diagnosis.instrument import SOURCES
from twinlens.reporting import display

COUNTERS = {
    "matrix-engines": "matrix engines",
    "bandwidth": "memory bandwidth",
    "batching": "batching efficiency",
    "transfer": "host–device, boundary",
    "kernels": "kernels, profiled",
}
_BESIDE = {
    "by_theory": "{} by theory",
    "share": "{} of ceiling",
    "share_at_most": "at most {} of ceiling",
    "ridge": "ridge {}",
    "share_of_kernel": "{} of its kernels' rate",
    "hmma_active": "{} HMMA",
    "sm_occupancy": "{} of warps",
    "pcie_tx_bytes_per_s": "{} from it",
    "nvlink_rx_bytes_per_s": "{} over NVLink",
}
_COUNTED = {
    "matrix-engines": "tensor pipes busy {}",
    "bandwidth": "DRAM busy {}",
    "transfer": "{} to the board",
}
"""What an instrument counted, in words."""


def counter_name(counter: Counter) -> str:
    """What a counter is called; one of another version by its id."""
    return COUNTERS.get(counter.id, display.clean(counter.id, 40))


def counter_words(counter: Counter) -> str:
    """ "23.5 FLOP/byte (12% of ceiling, ridge 4.9), step"; or why it is not known."""
    if counter.value.value is None:
        return f"not known: {display.clean(counter.value.reason or '', 200)}"
    if counter.id == "kernels":
        classes = [f"{display.clean(name, 30)} {display.value(each)}" for name, each in counter.beside.items()]
        return f"{', '.join(classes)}, {counter.about}"
    told = [_BESIDE[key].format(display.value(each)) for key, each in counter.beside.items() if key in _BESIDE]
    value = display.value(counter.value)
    if "share_at_most" in counter.beside:
        value = f"at most {value}"
    if counter.source not in SOURCES:
        more = f" ({', '.join(told)})" if told else ""
        return f"{value}{more}, {counter.about}"
    phase = f"{counter.about}: " if "by_theory" in counter.beside else ""
    more = f" ({phase}{', '.join(told)})" if told else ""
    return f"{_COUNTED[counter.id].format(value)} by {counter.source} over the window{more}"
