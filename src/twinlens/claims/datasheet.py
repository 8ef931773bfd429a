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
    found = [each for each in (_bandwidth(claim, *device), _memory(claim, *device), _rate(claim, *device)) if each]
    wrong = (each for each in found if isinstance(each, Answer) and not _agrees(each))
    # Of several figures the one that is wrong decides, then the one that cannot be judged.
    return next(wrong, None) or next((each for each in found if isinstance(each, Gap)), None) or next(iter(found), None)


def _agrees(answer: Answer) -> bool:
    low, high = answer.claimed.range if answer.claimed else (0.0, 0.0)
    return any(low <= case.value <= high for case in answer.cases)


def _bandwidth(claim: Claim, device: Device, notes: tuple[Finding, ...]) -> Answer | None:
    said, value = claim.one("bandwidth"), device.bandwidth_bytes_per_s
    case = Case(value, (Term("bandwidth", value, "bytes/s"),), "{0}")
    return None if said is None else Answer("device", "bytes/s", said, (case,), assumed=notes)


def _memory(claim: Claim, device: Device, notes: tuple[Finding, ...]) -> Answer | None:
    """Memory by the datasheet; where the claim says GiB, by what the driver shows as well: makers write GB for both."""
    said, sizes = claim.one("bytes"), {"": float(device.memory_bytes)}
    if said is None:
        return None
    if "iB" in said.text and device.memory_visible_bytes:
        sizes["driver"] = float(device.memory_visible_bytes)
    cases = tuple(Case(size, (Term("memory", size, "bytes"),), "{0}", name) for name, size in sizes.items())
    return Answer("device", "bytes", said, cases, assumed=notes, remarks=visible(device))


def _rate(claim: Claim, device: Device, notes: tuple[Finding, ...]) -> Answer | Gap | None:
    said = claim.one("flop_rate")
    if said is None:
        return None
    word = claim.name("format")
    rate = device.rate("fp4" if word in ("nvfp4", "mxfp4") else word) if word else None
    if word is None or rate is None:
        return Gap("device", ("precision",))
    case = Case(rate, (Term("peak", rate, "flop/s"),), "{0}")
    return Answer("device", "flop/s", said, (case,), assumed=notes, remarks=_why(said, device, rate))


def visible(device: Device) -> tuple[Finding, ...]:
    """What its driver shows, where that is known: a datasheet's GB of memory are closer to GiB."""
    size = device.memory_visible_bytes
    return (remark("visible-memory", gb=round(size / 1e9, 1), gib=round(size / 2**30, 1)),) if size else ()


def _why(said: Said, device: Device, rate: float) -> tuple[Finding, ...]:
    low, high = said.range
    narrower = next((name for name in ("fp8", "fp4") if low <= (device.rate(name) or 0.0) <= high), None)
    found = [remark("sparse")] if low <= 2 * rate <= high else []
    return (*found, *((remark("narrower", format=narrower.upper()),) if narrower else ()))
