"""Claims on training: memory by bytes per parameter, and time from 6·N·D over the FLOP/s that are reached."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.claims.answer import Answer, Case, Gap, Term, assumed, lacking, product, solved
from twinlens.claims.names import OPTIMIZERS
from twinlens.claims.said import Claim, Said, part_of_whole
from twinlens.claims.subject import device_of, subject_of
from twinlens.record.finding import Finding

_PARTS = {"weights": 2.0, "gradients": 2.0, "master": 4.0}
_LAYOUTS = (
    ("weights-only", 2.0), ("weights-and-gradients", 4.0), ("adamw-8bit", 6.0), ("adamw-bf16", 8.0),
    ("adamw-no-master", 12.0), ("adamw-master", 16.0), ("adamw-master-fp32-gradients", 18.0),
)  # fmt: skip
"""Usual layouts and their bytes per parameter (theory/layout.py), with 16-bit weights and gradients."""


def training_memory(claim: Claim) -> Answer | Gap | None:
    """ "70B full fine-tuning needs 500 GB": weights, gradients, optimizer, master copy; activations come on top."""
    claimed = claim.one("bytes")
    parts = claim.topics & {"gradients", "states", "master", *OPTIMIZERS}
    if claimed is None or not (parts or claim.topics & {"training", "lora"} or claim.all("bytes_per_param")):
        return None
    if claim.name("format") == "qlora":
        return None  # its weights stay in four bits
    subject = subject_of(claim)
    if "lora" in claim.topics and subject is not None:
        return _frozen(claimed, subject.params)
    if subject is None:
        return Gap("training-memory", ("model", *(() if claim.name("optimizer") else ("optimizer",))))
    cases = tuple(
        memory_case(subject.params, each, name)
        for name, each in layouts_of(claim)
    )  # fmt: skip
    named = bool(claim.name("optimizer")) or bool(claim.all("bytes_per_param"))
    missing = (*(() if named else ("optimizer",)), "activations")
    return Answer(
        "training-memory", "bytes", claimed, cases, missing=missing,
        solutions=tuple(_same_memory(claimed, subject.params, {case.assumed for case in cases})),
    )  # fmt: skip


def _frozen(claimed: Said, params: float) -> Answer:
    """LoRA: the frozen weights in 16 bits are the least; adapters and activations decide what comes on top."""
    case = memory_case(params, 2.0, "")
    return Answer(
        "training-memory", "bytes", claimed, (case,), bound="at-least", assumed=(assumed("frozen-weights", "BF16"),),
        missing=("adapters", "activations"), is_open=claimed.range[1] >= case.value,
    )  # fmt: skip


def memory_case(params: float, each: float, name: str) -> Case:
    """Parameters times bytes per parameter; `name`: the layout, "" where the claim says the bytes."""
    terms = (Term("params", params, "parameters"), Term("bytes-per-parameter", each, "bytes"))
    return Case(params * each, terms, product(terms), name)


def layouts_of(claim: Claim) -> tuple[tuple[str, float], ...]:
    """The layouts that a claim may mean: of its optimizer, of its bytes per parameter, else the usual ones."""
    said = claim.one("bytes_per_param")
    if said is not None:
        low, high = said.low or 0.0, said.high or 0.0
        return tuple(("", each) for each in dict.fromkeys((low, high)))
    optimizer = claim.name("optimizer")
    if optimizer in ("adamw-8bit", "adamw-bf16"):
        return ((optimizer, {"adamw-8bit": 6.0, "adamw-bf16": 8.0}[optimizer]),)
    if optimizer == "adamw":
        return tuple((name, each) for name, each in _LAYOUTS if each in (12.0, 16.0, 18.0))
    if optimizer is not None:
        return ((optimizer, 4.0 + OPTIMIZERS[optimizer]), (f"{optimizer}-master", 8.0 + OPTIMIZERS[optimizer]))
    return tuple((name, each) for name, each in _LAYOUTS if each >= 6.0)


def _same_memory(claimed: Said, params: float, taken: set[str]) -> Iterator[Finding]:
    low, high = claimed.range
    for name, each in _LAYOUTS:
        if low <= params * each <= high and name not in taken:
            yield solved("training-memory", "bytes", params * each, {"layout": name})
    yield solved("training-memory", "bytes", claimed.value, {"bytes_per_param": claimed.value / params})


def training_time(claim: Claim) -> Answer | Gap | None:
    """ "70B on 15T tokens takes 30 days on 2048 H100 at 40 % MFU": 6·N·D over devices, peak and MFU."""
    claimed = claim.one("time") if claim.all("tokens") or claim.all("flop") else None
    if claimed is None:
        return None
    work, many, peak, mfu, notes = _training(claim)
    missing = lacking({"model": work, "devices": many, "device": peak})
    if missing or work is None or many is None or peak is None:
        return Gap("training-time", missing)
    rate = many[0] * peak[0]
    if mfu is None:
        cases = tuple(_time(work, many, peak, share, f"{share:.0%} MFU") for share in (0.3, 0.4, 0.5))
    else:
        cases = (_time(work, many, peak, mfu, ""),)
    seconds = claimed.value
    more = (solved("training-time", "s", seconds, {"devices": work[0] / (peak[0] * mfu * seconds)}),) if mfu else ()
    return Answer(
        "training-time", "s", claimed, cases, assumed=notes, missing=() if mfu else ("mfu",),
        solutions=(solved("training-time", "s", seconds, {"mfu": work[0] / rate / seconds}), *more),
    )  # fmt: skip


_Part = tuple[float, tuple[Term, ...]]


def _training(claim: Claim) -> tuple[_Part | None, _Part | None, _Part | None, float | None, tuple[Finding, ...]]:
    """FLOP, devices, peak and MFU, each with its terms; and what was assumed."""
    subject, tokens, device = subject_of(claim), claim.value("tokens"), device_of(claim)
    many, mfu, peak = claim.value("devices"), claim.value("share"), claim.value("flop_rate")
    notes: tuple[Finding, ...] = ()
    work: _Part | None = None
    if subject is not None and tokens is not None:
        worked = (Term("6", 6, "1"), Term("params", subject.active, "parameters"), Term("tokens", tokens, "tokens"))
        work = (6 * subject.active * tokens, worked)
    elif (flop := claim.value("flop")) is not None:
        work = (flop, (Term("flop", flop, "flop"),))
    if peak is None and device is not None:
        form = claim.name("format") or "bf16"
        peak = device[0].rate(form if form in ("fp8", "int8", "fp32") else "bf16")
        notes = (*device[1], *((assumed("device-peak", device[0].name, flop_per_s=peak),) if peak else ()))
    return (
        work,
        (many, (Term("devices", many, "devices"),)) if many else None,
        (peak, (Term("peak", peak, "flop/s"),)) if peak else None,
        mfu,
        notes,
    )


def _time(work: _Part, many: _Part, peak: _Part, mfu: float, assumed: str) -> Case:
    terms = (*work[1], *many[1], *peak[1], Term("mfu", mfu, "share"))
    above = product(work[1])
    below = " × ".join(f"{{{place}}}" for place in range(len(work[1]), len(terms)))
    return Case(work[0] / (many[0] * peak[0] * mfu), terms, f"{above} / ({below})", assumed)


def training_mfu(claim: Claim) -> Answer | Gap | None:
    """ "70B trains at 900 tok/s on an H100, 38 % MFU": 6·N times tokens per second over the peak."""
    rate = claim.value("rate") if claim.topics & {"training", "mfu"} else None
    if rate is None:
        return _mfu_of_flops(claim)
    subject, (_, many, peak, _, notes) = subject_of(claim), _training(claim)
    if subject is None or peak is None:
        return Gap("mfu", lacking({"model": subject, "device": peak}))
    count = many[0] if many else 1.0
    terms = (Term("6", 6, "1"), Term("params", subject.active, "parameters"), Term("rate", rate, "tokens/s"),
             Term("devices", count, "devices"), *peak[1])  # fmt: skip
    part_of_whole(claim.one("share"))
    mfu = 6 * subject.active * rate / (count * peak[0])
    claimed = claim.one("share") or Said("share", 1.0, 1.0, "100 %")
    at_peak = peak[0] * count / (6 * subject.active)
    return Answer(
        "mfu", "share", claimed, (Case(mfu, terms, "{0} × {1} × {2} / ({3} × {4})"),),
        bound="same" if claim.all("share") else "at-least", assumed=notes,
        missing=() if many else ("devices",),
        solutions=(solved("mfu", "share", claimed.value, {"rate": claimed.value * at_peak}),),
    )  # fmt: skip


def _mfu_of_flops(claim: Claim) -> Answer | None:
    """ "45 % MFU on H100 at 400 TFLOPS per GPU": the FLOP/s that are reached over the peak of one device."""
    if "mfu" not in claim.text.lower() or not claim.all("share") or not claim.all("flop_rate"):
        return None
    claimed, reached, device = claim.one("share"), claim.value("flop_rate"), device_of(claim)
    if claimed is None or reached is None or device is None:
        return None
    form = claim.name("format") or "bf16"
    peak = device[0].rate(form if form in ("fp8", "int8", "fp32") else "bf16")
    if peak is None or claim.topics & {"prefill", "all-reduce"} or claim.all("time"):
        return None
    terms = (Term("reached", reached, "flop/s"), Term("peak", peak, "flop/s"))
    return Answer(
        "mfu", "share", part_of_whole(claimed), (Case(reached / peak, terms, "{0} / {1}"),),
        assumed=(*device[1], assumed("device-peak", device[0].name, flop_per_s=peak)),
        missing=() if claim.name("format") else ("precision",),
        solutions=(solved("mfu", "share", claimed.value, {"flop_rate": claimed.value * peak}),),
    )  # fmt: skip
