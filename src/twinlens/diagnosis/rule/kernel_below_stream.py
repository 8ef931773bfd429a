"""The kernels that read the weights in decode do not reach the rate at which this memory can be read."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence, Rule
from twinlens.diagnosis.phase import known
from twinlens.record.finding import Finding

_LOW = 0.75


def kernel_below_stream(seen: Evidence) -> Iterable[Finding]:
    """Where mat-vec kernels, measured alone, read at less than three quarters of a plain read."""
    kernel, stream = (known(seen.ceilings, name) for name in ("matvec_bytes_per_s", "read_bytes_per_s"))
    decode = next((phase for phase in seen.phases if phase.name == "decode" and phase.kernel_bytes), None)
    if kernel is None or stream is None or decode is None or kernel >= _LOW * stream or not decode.seconds:
        return
    in_kernels = min(1.0, decode.kernel_bytes / kernel / decode.seconds) if decode.kernel_bytes else 0.0
    saved = in_kernels * (1 - kernel / stream)
    numbers = {
        "ratio": kernel / stream, "in_kernels": in_kernels, "at_most": 1 / (1 - saved),
        "headroom_s": saved * seen.partition.parts.get("decode", 0.0), "tried": dict(seen.in_use),
    }  # fmt: skip
    evidence = {name: seen.ceilings[name] for name in ("matvec_bytes_per_s", "read_bytes_per_s")}
    yield Finding("kernel-below-stream", "notes", "decode", numbers, evidence)


RULE = Rule(
    code="kernel-below-stream",
    find=kernel_below_stream,
    says=(
        "The kernels that read the weights in decode reach less than three quarters of a plain read of the same memory."
    ),
    why=(
        "Memory is not at its limit; the kernels are. Faster memory may give nothing, and better kernels may give much."
    ),
    evidence=(
        "`matvec_bytes_per_s` over `read_bytes_per_s`, both measured alone on this machine. `at_most` is what"
        " decode would gain if those kernels read at the plain rate; `headroom_s` is the time a request would"
        " save."
    ),
    lies="The plain read may come from a cache, or use more threads than the engine does.",
    remedy="Try another runtime or format: int8-weight, bf16, llama.cpp.",
    falsifier=(
        "Change only the kernels (runtime, layout or thread count). A decode that gains more than `at_most` "
        "proves this wrong."
    ),
    sources=(
        'McCalpin, "Memory bandwidth and machine balance in current high performance computers", IEEE TCCA '
        "newsletter, 1995 (STREAM)",
        'Databricks, "LLM inference performance engineering: best practices", 2023, on model bandwidth utilisation',
    ),
    see=("mbu", "matvec_share", "bandwidth-bound"),
)
