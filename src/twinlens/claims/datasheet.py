"""Claims on a device alone: its dense rate in a format, its bandwidth or its memory, against its datasheet."""

from __future__ import annotations

from twinlens.claims.answer import Answer, Case, Gap, Term, remark
from twinlens.claims.said import Claim, Said
from twinlens.claims.subject import device_of
from twinlens.record.finding import Finding
from twinlens.spec.device import Device

_OTHER = {"params", "rate", "token_time", "time", "tokens", "context", "sequences", "ratio", "share"}


def datasheet(claim: Claim) -> Answer | Gap | None:
    """ "An H100 has 1979 TFLOPS FP16": dense rates, as makers also quote twice as much, with structured sparsity."""
    device = device_of(claim) if len(claim.names.get("device", ())) == 1 else None
    if device is None or claim.names.get("model") or claim.names.get("link") or any(claim.all(kind) for kind in _OTHER):
        return None
    for kind, unit, name in (("bandwidth", "bytes/s", "bandwidth"), ("bytes", "bytes", "memory")):
        said = claim.one(kind)
        if said is not None:
            value = device[0].bandwidth_bytes_per_s if name == "bandwidth" else float(device[0].memory_bytes)
            remarks = visible(device[0]) if name == "memory" else ()
            case = Case(value, (Term(name, value, unit),), "{0}")
            return Answer("device", unit, said, (case,), assumed=device[1], remarks=remarks)
    said = claim.one("flop_rate")
    if said is None:
        return None
    word = claim.name("format")
    rate = device[0].rate("fp4" if word in ("nvfp4", "mxfp4") else word) if word else None
    if word is None or rate is None:
        return Gap("device", ("precision",))
    case = Case(rate, (Term("peak", rate, "flop/s"),), "{0}")
    return Answer("device", "flop/s", said, (case,), assumed=device[1], remarks=_why(said, device[0], rate))


def visible(device: Device) -> tuple[Finding, ...]:
    """What its driver shows, where that is known: a datasheet's GB of memory are closer to GiB."""
    size = device.memory_visible_bytes
    return (remark("visible-memory", gb=round(size / 1e9, 1), gib=round(size / 2**30, 1)),) if size else ()


def _why(said: Said, device: Device, rate: float) -> tuple[Finding, ...]:
    low, high = said.range
    narrower = next((name for name in ("fp8", "fp4") if low <= (device.rate(name) or 0.0) <= high), None)
    found = [remark("sparse")] if low <= 2 * rate <= high else []
    return (*found, *((remark("narrower", format=narrower.upper()),) if narrower else ()))
