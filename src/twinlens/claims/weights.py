"""Claims on weights: their size in a format, and whether they fit into the memory of devices."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from twinlens.claims.answer import Answer, Case, Gap, Term, assumed, beside, product, solved
from twinlens.claims.datasheet import visible
from twinlens.claims.said import Claim, Said
from twinlens.claims.subject import Stored, Subject, device_of, kv_per_token, stored_as, stored_of, subject_of
from twinlens.record.finding import Finding

_RUNS_ON = re.compile(r"(?i)\b(?:runs?|running|served?|deploy(?:ed)?) (?:\w+ ){0,3}?on\b")
_FIGURES = (
    "rate", "time", "token_time", "tokens", "share", "flop_rate", "ratio", "price_token", "price_hour", "money",
    "power", "bandwidth", "kv_token", "cost_each", "bytes_per_param",
)  # fmt: skip
_FORMATS = ("fp16", "int8", "q4_k_m", "4-bit")


def weights_size(claim: Claim) -> Answer | Gap | None:
    """ "70B Q4 is 40 GB": bytes of the weights."""
    claimed = claim.one("bytes")
    subject = subject_of(claim)
    if claimed is None or subject is None or claim.topics & {"fits", "training", "kv", "gradients", "states", "lora"}:
        return None
    if implies_fit(claim):
        return None
    if claim.all("bytes_per_param") or claim.all("devices"):
        return None
    stored = stored_of(claim, subject)
    if not stored:
        return Gap("weights", ("precision",))
    cases = tuple(_size(subject, each, len(stored) > 1) for each in stored)
    named = ", ".join(dict.fromkeys(str(each.name) for each in stored))
    matching = (
        solved("weights", "bytes", each.bytes, {"format": name})
        for name in _FORMATS
        for each in (stored_as(subject, name),)
        if claimed.range[0] <= each.bytes <= claimed.range[1] and name not in named
    )
    bits = solved("weights", "bytes", claimed.value, {"bits": 8 * claimed.value / subject.params})
    return Answer("weights", "bytes", claimed, cases, assumed=beside(subject.assumed), solutions=(*matching, bits))


def _size(subject: Subject, stored: Stored, is_choice: bool) -> Case:
    terms = (Term("params", subject.params, "parameters"), Term("bytes-per-parameter", stored.bits / 8, "bytes"))
    return Case(stored.bytes, terms, product(terms), stored.name if is_choice else "")


def fit(claim: Claim) -> Answer | Gap | None:
    """ "An H200 holds 70B FP16": weights and cache against the memory of the devices, no runtime."""
    is_adapter = claim.name("format") == "qlora" or "lora" in claim.topics  # beside weights that are not trained
    is_asked = "fits" in claim.topics or implies_fit(claim)
    if not (is_asked or (claim.all("devices") and claim.all("params") and not claim.all("tokens"))):
        return None
    if "all-reduce" in claim.topics or claim.all("time") or claim.all("rate"):
        return None
    if "training" in claim.topics and not is_adapter:
        return None
    subject = subject_of(claim)
    room, where = room_of(claim)
    if subject is None or room is None:
        return Gap("memory", (*(("model",) if subject is None else ()), *(("device",) if room is None else ())))
    stored = stored_of(claim, subject, "bf16" if is_adapter else None)
    if not stored:
        return Gap("memory", ("precision",))
    context, users = claim.value("context"), claim.value("sequences")
    each = kv_per_token(claim, subject)
    if context and each is None:
        return Gap("memory", ("model-layers",))
    if "kv" in claim.topics and not context:
        return Gap("memory", ("context", *(() if users else ("users",))))
    held = each[0] * context * (users or 1.0) if each and context else 0.0
    cases = tuple(_need(each, held, len(stored) > 1) for each in stored)
    frozen = is_adapter and claim.name("format") is None and not claim.all("bits")
    notes = (
        *((assumed("frozen-weights", "BF16"),) if frozen else ()),
        *where,
        *(each[2] if each and context else beside(subject.assumed)),
    )
    missing = (
        *(() if context else ("context",)),
        *(("adapters", "activations") if is_adapter else () if users else ("users",)),
        "runtime-memory",
    )
    refuses = "not" in claim.topics
    said = Said("bytes", room, room, claim.text, off=0.0)
    return Answer(
        "no-room" if refuses else "memory", "bytes", said, cases, bound="at-most" if refuses else "at-least",
        assumed=notes, missing=missing,
        solutions=tuple(_room_made(claim, subject, cases, room, each[0] if each else None)),
        remarks=visible(device[0]) if (device := device_of(claim)) and not claim.all("bytes") else (),
    )  # fmt: skip


def implies_fit(claim: Claim) -> bool:
    """ "Fine-tune 7B with LoRA on a 4090", "70B Q4 runs on a 24GB card": no figure but the sizes says that it fits."""
    is_training = claim.topics & {"training", "lora"} or claim.name("format") == "qlora"
    runs = claim.all("params") or claim.names.get("model") if _RUNS_ON.search(claim.text) else ()
    if not (is_training or runs) or "kv" in claim.topics or any(claim.all(kind) for kind in _FIGURES):
        return False
    said = claim.one("bytes")
    if said is not None:
        return re.search(rf"\bon\b[^,;.]*{re.escape(said.text)}", claim.text) is not None
    return claim.name("device") is not None


def _need(stored: Stored, held: float, is_choice: bool) -> Case:
    terms = (Term("weights", stored.bytes, "bytes"), *((Term("kv", held, "bytes"),) if held else ()))
    return Case(stored.bytes + held, terms, "{0} + {1}" if held else "{0}", stored.name if is_choice else "")


def room_of(claim: Claim) -> tuple[float | None, tuple[Finding, ...]]:
    """Bytes of all devices: as said, else of the device in the catalogue."""
    many = claim.value("devices") or 1.0
    said = claim.one("bytes")
    if said is not None:
        return said.value * many, ()
    device = device_of(claim)
    if device is None:
        return None, ()
    notes = (*device[1], assumed("device-memory", device[0].name, memory=float(device[0].memory_bytes)))
    return device[0].memory_bytes * many, notes


def _room_made(
    claim: Claim, subject: Subject, cases: tuple[Case, ...], room: float, each: float | None
) -> Iterator[Finding]:
    """What would fit: more devices, fewer users, a narrower format; and the tokens that are left where it does."""
    needed = cases[0].value
    weights = cases[0].terms[0].value
    context, users = claim.value("context"), claim.value("sequences")
    many = claim.value("devices") or 1.0
    if needed > room:
        count = math.ceil(needed / (room / many))
        yield solved("memory", "bytes", count * room / many, {"devices": count})
        if context and users and each and room > weights and (most := int((room - weights) / (each * context))) > 0:
            yield solved("memory", "bytes", weights + most * each * context, {"users": most, "context": context})
        for name in _FORMATS:
            stored = stored_as(subject, name)
            if stored.bytes < weights and stored.bytes + needed - weights <= room:
                yield solved("memory", "bytes", stored.bytes + needed - weights, {"format": name})
                return
    elif each:
        yield solved("memory", "bytes", room, {"tokens_left": (room - needed) / each})
