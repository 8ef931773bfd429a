"""Sanity checks on the figures of a device: an implied clock, ratios of rates, FLOP per byte. Units slip often."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.spec.device import Device

_CLOCK_HZ = (0.5e9, 3.2e9)
_FLOP_PER_BYTE = (5.0, 2500.0)
_HALVED = (("fp8", ("bf16", "fp16"), 3.2), ("int8", ("bf16", "fp16"), 4.2), ("fp4", ("fp8",), 4.2))
"""A narrower format, the wider ones to hold it to, and the most times that one may be faster: GeForce parts accumulate
16 and 8 bits in fp32 at half the rate."""
_MOST_BYTES, _LEAST_BYTES = 1e14, 1e9
_MOST_BANDWIDTH, _LEAST_BANDWIDTH = 2e13, 1e9


def implied_clock_hz(device: Device) -> float | None:
    """The clock at which its units would do its 16-bit rate; None where either is not known."""
    rate = device.rate("bf16") or device.rate("fp16")
    units = device.matrix_units
    return None if rate is None or units is None else rate / (units.count * units.flop_per_clock)


def implausible(device: Device) -> Iterator[str]:
    """What cannot be in the figures of a device, in clauses that say what to look at; nothing where all may be."""
    clock = implied_clock_hz(device)
    if clock is not None and not _CLOCK_HZ[0] <= clock <= _CLOCK_HZ[1]:
        yield f"its 16-bit rate needs a clock of {clock / 1e9:.2f} GHz (is it the rate with sparsity, or in TFLOP/s?)"
    for narrow, wider, most in _HALVED:
        rate = device.rate(narrow)
        wide = next((found for name in wider if (found := device.rate(name)) is not None), None)
        if rate is not None and wide is not None and not 0.95 <= rate / wide <= most:
            yield f"its {narrow} rate is {rate / wide:.2g} times its {wider[0]} rate (is one of them with sparsity?)"
    if not _LEAST_BYTES <= device.memory_bytes <= _MOST_BYTES:
        yield f"memory_bytes of {device.memory_bytes:,} is no memory (in bytes: 80 GB are 80_000_000_000)"
    seen = device.memory_visible_bytes
    if seen is not None and not 0.5 <= seen / device.memory_bytes <= 1.1:
        yield f"its driver would show {seen / device.memory_bytes:.2g} times its memory"
    if not _LEAST_BANDWIDTH <= device.bandwidth_bytes_per_s <= _MOST_BANDWIDTH:
        yield f"bandwidth_bytes_per_s of {device.bandwidth_bytes_per_s:g} is none (in bytes/s: 3.35 TB/s are 3.35e12)"
        return
    rate = device.rate("bf16") or device.rate("fp16")
    if rate is not None and not _FLOP_PER_BYTE[0] <= rate / device.bandwidth_bytes_per_s <= _FLOP_PER_BYTE[1]:
        ratio = rate / device.bandwidth_bytes_per_s
        yield f"{ratio:.3g} FLOP per byte of bandwidth is beyond any device (are they in FLOP/s and bytes/s?)"
