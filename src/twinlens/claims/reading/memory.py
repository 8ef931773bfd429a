"""Claims on memory: the KV cache, weights, and whether both fit into the memory of devices."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from twinlens.claims.said import (
    Answer,
    Claim,
    Gap,
    Said,
    View,
    assumed,
    beside,
    by_name,
    lacking,
    remark,
    solved,
    values,
)
from twinlens.claims.subject import (
    Cache,
    Notes,
    Stored,
    Subject,
    cache_of,
    context_of,
    devices_of,
    room_of,
    said_device,
    said_model,
    stored_as,
    stored_of,
)
from twinlens.record.finding import Finding
from twinlens.spec.device import Device
from twinlens.theory.figure import Figure, Input, by_law, total

_NEAR = 0.08
_NEEDS = re.compile(r"(?i)\b(?:needs?|requires?|takes?|wants?|must|demands?|minimum)\b")
_OF_KV = re.compile(r"(?i)\d ?[GMT]i?B (?:(?:of|for)(?: the)? )?kv\b")
_LEAVES = re.compile(r"(?i)leav(?:es?|ing) (?:only |about |around |roughly |some )*$")
_CLOSE = 30  # letters
_TAKES = re.compile(r"(?i)\b(?:needs?|requires?|takes?|demands?) (?:about |around |roughly |some |~)*$")
_LEFT = re.compile(r"(?i) (?:(?:is|are|of \w+|for \w+) )?(?:left|to spare|remain)")
_TOO_BIG = re.compile(r"(?i)\btoo (?:big|large|much|heavy|fat|wide)\b.*\b(?:for|to)\b")
_MORE_THAN = re.compile(r"(?i)(?:more than|above|>)")
_RUNS_ON = re.compile(
    r"(?i)\b(?:runs?|running|served?|host(?:s|ed)?|squeez(?:es?|ed)|cram(?:med)?|deploy(?:ed)?|works?) "
    r"(?:[\w.-]+ ){0,3}?(?:on|in)(?:to)?\b"
)
_FORMATS = ("fp16", "int8", "q4_k_m", "4-bit")
_OF_BARE_SIZE = 0.01
"""How far the parameters of a model may be from its size, where that is multiplied as it is said."""


def weights_size(view: View) -> Answer | Gap | None:
    """ "70B Q4 is 40 GB": bytes of the weights, of all devices or of each."""
    claimed, subject = view.one("bytes"), said_model(view)
    if claimed is None or subject is None or view.about("training", "lora") or view.peek("bytes_per_param"):
        return None
    if view.about("kv") and not view.peek("kv_bytes"):
        return None
    view.says("weights", "needs")
    stored = stored_of(view, subject)
    if not stored:
        return Gap("weights", ("precision",))
    many = devices_of(view) if claimed.per == "device" else 1.0
    if many is None:
        return Gap("weights", ("devices",))
    is_choice = len(stored) > 1 or not view.claim.names("format")
    cases = tuple(
        memory_case("weights", subject.params, each.bits / 8, each.name if is_choice else "", many) for each in stored
    )
    named = ", ".join(dict.fromkeys(str(each.name) for each in stored))
    matching = (
        solved("weights", "bytes", each.bytes, {"format": name})
        for name in _FORMATS
        for each in (stored_as(subject, name),)
        if claimed.range[0] <= each.bytes <= claimed.range[1] and name not in named
    )
    bits = solved("weights", "bytes", claimed.value, {"bits": 8 * claimed.value * many / subject.params})
    return Answer(claimed, cases, assumed=beside(subject.assumed), solutions=(*matching, bits))


def memory_case(quantity: str, params: float, each: float, layout: str, many: float = 1.0) -> Figure:
    """Parameters times bytes per parameter; `layout`: "" where the claim says the bytes."""
    given = by_name(Input("params", params, "parameters"), Input("bytes-per-parameter", each, "bytes"))
    given |= {"shards": Input("devices", many, "devices")} if many != 1 else {}
    return by_law("training-memory", given, quantity, reading=layout)


def fit(view: View) -> Answer | Gap | None:
    """ "An H200 holds 70B FP16": weights and cache against the memory of the devices, no runtime."""
    is_adapter = view.name("format") == "qlora" or view.says("lora")  # beside weights that are not trained
    named = bool(view.claim.all("params") or view.claim.names("model"))
    is_asked = (
        view.says("fits")
        or (named and bool(_RUNS_ON.search(view.claim.text) or (is_adapter and view.claim.names("device"))))
        or (named and (view.peek("devices") or view.peek("card_bytes")))
    )
    is_size = (not view.about("fits") or of_kv(view)) and any(
        each.per or of_kv(view) for each in view.claim.all("bytes")
    )  # "17.6 GB per GPU"
    if not is_asked or is_size or (view.about("training") and not is_adapter):
        return None
    view.says("training", "weights", "machine")
    subject = said_model(view)
    room, where = room_of(view)
    if subject is None or room is None:
        return Gap("memory", lacking({"model": subject, "device": room}))
    stored = stored_of(view, subject, "bf16" if is_adapter else None)
    if not stored:
        return Gap("memory", ("precision",))
    stored = _with_scales(stored)
    context, users = context_of(view), view.value("sequences")
    cache = cache_of(view, subject) if context or view.says("kv") else None
    if context and cache is None:
        return Gap("memory", ("model-layers",))
    view.says("kv")
    if view.about("kv") and not context:
        return Gap("memory", ("context", *(() if users else ("users",))))
    held = cache.held(context, users or 1.0) if cache and context else 0.0
    said = view.claim.names("format") or view.peek("bits") or view.peek("bytes_per_param") or is_adapter
    if not said and min(each.bytes for each in stored) + held > room:
        return Gap("memory", ("precision",))  # as it was published it does not fit, and narrower it may
    cases = tuple(_need(each, held, len(stored) > 1 or not said) for each in stored)
    frozen = is_adapter and view.name("format") is None and not view.peek("bits")
    notes = (
        *((assumed("frozen-weights", "BF16"),) if frozen else ()), *where,
        *(cache.assumed if cache and context else beside(subject.assumed)),
    )  # fmt: skip
    missing = (
        *(() if context else ("context",)),
        *(("adapters", "activations") if is_adapter else () if users else ("users",)), "runtime-memory",
    )  # fmt: skip
    return room_answer(
        view, room, cases, notes, missing, tuple(_room_made(view, subject, stored[0].bytes, held, room, cache)),
        visible(device[0]) if (device := said_device(view)) and not view.peek("bytes") else (),
    )  # fmt: skip


def of_kv(view: View) -> bool:
    """Whether bytes are those of the cache alone: "60 GB of KV"."""
    return bool(_OF_KV.search(view.claim.text)) and not view.claim.names("device")


def _with_scales(stored: tuple[Stored, ...]) -> tuple[Stored, ...]:
    """The readings that a file can have: four bits and no scales are a size by hand."""
    return tuple(each for each in stored if each.name != "4-bit") or stored


def left_over(view: View) -> Answer | Gap | None:
    """ "405B in FP8 leaves 720 GB of 8 H200 for KV": the memory of the devices without the weights."""
    said = next((each for each in view.claim.all("bytes") if _is_left(view.claim.text, each)), None)
    subject, device = said_model(view), said_device(view)
    if said is None or subject is None or device is None or any(map(view.peek, ("context", "sequences"))):
        return None
    stored = stored_of(view, subject)
    if not stored:
        return Gap("memory", ("precision",))
    rest = [each for each in view.claim.all("bytes") + view.claim.all("card_bytes") if each != said]
    room = float(device[0].memory_bytes) * (devices_of(view) or 1.0)
    view.used.update(each for each in rest if abs(each.value / device[0].memory_bytes - 1) < _NEAR)
    view.used.add(said)
    view.says("kv", "fits", "left")
    cases = tuple(
        Figure("left-over", room - each.bytes, "bytes", "{0} − {1}",
               (Input("memory", room, "bytes"), Input("weights", each.bytes, "bytes")),
               reading=each.name if len(stored) > 1 else "")
        for each in stored if each.bytes < room
    )  # fmt: skip
    return Answer(said, cases, assumed=device[1], missing=("runtime-memory",)) if cases else None


def _is_left(text: str, said: Said) -> bool:
    """Whether bytes are what is left: "leaves 8 GB", "8 GB are left"."""
    return bool(_LEAVES.search(text[: said.at]) or _LEFT.match(text, said.at + len(said.text)))


def room_answer(
    view: View, room: float, cases: tuple[Figure, ...], notes: Notes, missing: tuple[str, ...],
    solutions: tuple[Finding, ...], remarks: Notes = (), held: float = 0.0,
) -> Answer:  # fmt: skip
    refuses = _refuses(view)
    off = _OF_BARE_SIZE if view.peek("bytes_per_param") and not view.claim.names("model") else 0.0
    said = Said("bytes", room, room, view.claim.text, off=off)
    return Answer(
        said, tuple(replace(each, name="no-room") for each in cases) if refuses else cases,
        bound="at-most" if refuses else "at-least",
        assumed=notes, missing=missing, solutions=solutions, remarks=remarks,
        refuted=None if refuses or held else _fewer(view, cases, room),
        is_open=not refuses and not held and _half_is_enough(view, cases, room),
    )  # fmt: skip


def _fewer(view: View, cases: tuple[Figure, ...], room: float) -> Finding | None:
    """That one device fewer is enough, where a claim says how many are needed at least."""
    said = next(iter(view.claim.all("devices")), None)
    if said is None or said.side != "least" or not _NEEDS.search(view.claim.text) or (many := said.value) < 2:
        return None
    enough = math.ceil(values(cases)[1] / (room / many))
    return remark("fewer", devices=enough) if enough < many else None


def _half_is_enough(view: View, cases: tuple[Figure, ...], room: float) -> bool:
    """Whether half of the devices that "it takes" hold it too: the cache may need the others, and it is not said."""
    said = next(iter(view.claim.all("devices")), None)
    if said is None or said.side or not _TAKES.search(view.claim.text[: said.at]):
        return False
    return values(cases)[1] <= room / 2


def _refuses(view: View) -> bool:
    """Whether it is said not to fit: one "not" close before "fits", "run on" or "holds"; another one is not used."""
    verb = next((each.at for each in view.claim.words if each.name == "fits"), None)
    runs = _RUNS_ON.search(view.claim.text)
    at = verb if verb is not None else runs.start() if runs else -1
    near = [each for each in view.claim.words if each.name == "not" and -12 <= at - each.at <= _CLOSE]
    if len(near) == 1:
        view.used.update(near)
    return (len(near) == 1) != bool(_too_small(view) or too_few(view.claim))


def _too_small(view: View) -> bool:
    """ "70B in BF16 is too big for an 80 GB H100": said not to fit."""
    return not view.about("saves") and view.says("too") and bool(_TOO_BIG.search(view.claim.text))


def too_few(claim: Claim) -> bool:
    """ "Needs more than eight H100s": said not to fit on eight."""
    many = next(iter(claim.all("devices")), None)
    return many is not None and bool(_MORE_THAN.match(many.text)) and bool(_NEEDS.search(claim.text))


def does_not_fit(view: View, stored: tuple[Stored, ...], held: float) -> Finding | None:
    """That the smallest reading of the weights, and the cache, are more than the devices that are named have.

    Neither the datasheet nor the driver is taken as the limit, but the larger of both.
    """
    device = said_device(view)
    if device is None or not stored or view.peek("bandwidth"):
        return None
    room = max(device[0].memory_bytes, device[0].memory_visible_bytes or 0) * (devices_of(view) or 1.0)
    needed = min(each.bytes for each in _with_scales(stored)) + held
    return remark("no-room", needed=needed, room=float(room)) if needed > room else None


def visible(device: Device) -> Notes:
    """What its driver shows, where that is known: a datasheet's GB of memory are closer to GiB."""
    size = device.memory_visible_bytes
    return (remark("visible-memory", gb=round(size / 1e9, 1), gib=round(size / 2**30, 1)),) if size else ()


def _need(stored: Stored, held: float, is_choice: bool) -> Figure:
    inputs = (Input("weights", stored.bytes, "bytes"), *((Input("kv", held, "bytes"),) if held else ()))
    return total("memory", "bytes", inputs, reading=stored.name if is_choice else "")


def _room_made(
    view: View, subject: Subject, weights: float, held: float, room: float, cache: Cache | None
) -> Iterator[Finding]:
    """What would fit: more devices, fewer users, a narrower format; and the tokens that are left where it does."""
    needed, many = weights + held, devices_of(view) or 1.0
    context, users = context_of(view), view.value("sequences")
    if needed <= room:
        each = cache or cache_of(View(view.claim), subject)
        if each:
            yield solved("memory", "bytes", room, {"tokens_left": (room - needed) / each.per_token})
        return
    count = math.ceil(needed / (room / many))
    yield solved("memory", "bytes", count * room / many, {"devices": count})
    if context and users and cache and room > weights and (most := int((room - weights) / cache.held(context))) > 0:
        yield solved("memory", "bytes", weights + cache.held(context, most), {"users": most, "context": context})
    for name in _FORMATS:
        stored = stored_as(subject, name)
        if stored.bytes < weights and stored.bytes + needed - weights <= room:
            yield solved("memory", "bytes", stored.bytes + needed - weights, {"format": name})
            return
