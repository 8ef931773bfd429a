"""Claims on prefill: tokens per second and the time of a prompt against FLOP/s, which bind where prompts are long."""

from __future__ import annotations

from twinlens.claims.answer import Answer, Bound, Case, Gap, Term, assumed, beside, lacking, solved
from twinlens.claims.said import Claim
from twinlens.claims.subject import device_of, subject_of
from twinlens.record.finding import Finding
from twinlens.theory.flop import prefill_flop

_RATE_OF = {"fp8": "fp8", "w8a8": "int8", "int8": "int8", "nvfp4": "fp4", "mxfp4": "fp4", "fp4": "fp4", "fp32": "fp32"}
"""Formats that multiply at a rate of their own; the others are widened to 16 bits first."""


def prefill(claim: Claim) -> Answer | Gap | None:
    """ "70B prefills 32K context in 12.2 s on an H100 at 50 % MFU", or a rate: FLOP over FLOP/s reached."""
    is_bare = bool(claim.all("flop_rate") and claim.all("rate") and not claim.all("bandwidth"))
    if "prefill" not in claim.topics and not is_bare:
        return None
    claimed, is_time = claim.one("rate"), False
    if claimed is None:
        claimed, is_time = claim.one("time") or claim.one("token_time"), True
    if claimed is None or "training" in claim.topics:
        return None
    subject, (peak, notes), context = subject_of(claim), peak_of(claim), claim.value("context")
    needed = {"model": subject, "device": peak, "context": context if is_time else 1}
    if subject is None or peak is None or (is_time and context is None):
        return Gap("ttft" if is_time else "prefill-rate", lacking(needed))
    mfu = claim.value("share")
    reached = peak * (claim.value("devices") or 1.0) * (mfu or 1.0)
    exact = subject.shape is not None and context is not None
    tokens = context or 1.0
    flop = float(prefill_flop(subject.shape, tokens)) if exact and subject.shape else 2 * subject.active * tokens
    terms = (Term("flop", flop, "FLOP"), Term("reached", reached, "flop/s"), Term("context", tokens, "tokens"))
    case = (
        Case(flop / reached, terms, "{0} / {1}") if is_time else Case(tokens * reached / flop, terms, "{2} × {1} / {0}")
    )
    share = flop / claimed.value / reached if is_time else claimed.value * flop / tokens / reached
    needed_mfu = share * (mfu or 1.0)
    quantity, unit = ("ttft", "s") if is_time else ("prefill-rate", "tokens/s")
    bound: Bound = "same" if mfu else "at-least" if is_time else "at-most"
    return Answer(
        quantity, unit, claimed, (case,), bound=bound, assumed=(*notes, *beside(subject.assumed), *_phase(claim)),
        missing=() if mfu else ("mfu-reached",),
        solutions=(solved(quantity, unit, claimed.value, {"mfu": needed_mfu}),) if needed_mfu <= 1 else (),
    )  # fmt: skip


def _phase(claim: Claim) -> tuple[Finding, ...]:
    """A rate beside FLOP/s alone is read as one of prefill, or of very many sequences: decode reads its weights."""
    return () if "prefill" in claim.topics else (assumed("phase", "prefill"),)


def peak_of(claim: Claim) -> tuple[float | None, tuple[Finding, ...]]:
    """FLOP/s as said, else the device's in the format that multiplies, and what was assumed for it."""
    said, device = claim.value("flop_rate"), device_of(claim)
    if said is not None or device is None:
        return said, ()
    rate = device[0].rate(_RATE_OF.get(claim.name("format") or "", "bf16"))
    return rate, (*device[1], *((assumed("device-peak", device[0].name, flop_per_s=rate),) if rate else ()))
