"""Claims on ratios: of two devices, two formats, two bandwidths, two times, or optimizer states against weights."""

from __future__ import annotations

import re

from twinlens.claims.algebra import UNITS
from twinlens.claims.names import DEVICES, FORMATS, device_at
from twinlens.claims.part import link_rates
from twinlens.claims.said import UNREADABLE, Answer, Case, Gap, Said, Term, View
from twinlens.claims.subject import Subject, said_model, stored_as
from twinlens.errors import BadInput
from twinlens.spec.device import load_device
from twinlens.theory.layout import OPTIMIZERS
from twinlens.theory.weight_format import WEIGHT_FORMATS


def ratio(view: View) -> Answer | Gap | None:
    """ "H200 is 1.4x an H100": the larger over the smaller, for each resource that may bind."""
    claimed = _claimed(view)
    if claimed is None:
        return None
    if view.claim.names("optimizer") and view.says("weights"):
        return _states(view, claimed)
    devices, formats = view.claim.names("device"), view.claim.names("format")
    for kind in _COMPARED:
        if len(view.claim.all(kind)) == 2:
            one, other = (each.value for each in view.all(kind))
            return _of(claimed, (_pair(_COMPARED[kind], one, other, UNITS[kind][1]),), ())
    if len(devices) == 2:
        view.used.update(each for each in view.claim.words if each.kind == "device")
        return _devices(view, claimed, *devices)
    if len(formats) == 2:
        view.used.update(each for each in view.claim.words if each.kind == "format")
        return _formats(view, claimed, *formats)
    if len(links := view.claim.names("link")) == 2 and all(name in link_rates() for name in links):
        view.used.update(each for each in view.claim.words if each.kind == "link")
        one, other = (link_rates()[name] for name in links)
        return _of(claimed, (_pair("bandwidth", one, other, "bytes/s"),), ())
    if len(devices) > 2 or len(formats) > 2:
        raise BadInput(f"a ratio is of two, and the claim names {', '.join(devices or formats)}", code=UNREADABLE)
    return Gap("ratio", ("what-is-compared",))


_COMPARED = {"bandwidth": "bandwidth", "token_time": "time", "time": "time", "bytes": "bytes", "rate": "rate",
             "power": "power", "energy": "energy", "device_time": "device-time", "flop_rate": "peak", "flop": "flop",
             "price_hour": "price-per-hour", "price_token": "price-per-token"}  # fmt: skip


def _claimed(view: View) -> Said | None:
    """A factor as said; "half" is 2, "quarter" 4, and "12 % faster" 1.12."""
    said = view.one("ratio")
    if said is not None:
        return said
    for word, value in (("half", 2.0), ("quarter", 4.0)):
        if view.says(word):
            return Said("ratio", value, value, word)
    share = view.one("share")
    if share is None or share.low is None or share.high is None:
        return None
    if _LESS.search(view.claim.text):
        left = 1 - max(share.low, share.high)
        return Said("ratio", 1 / (1 - share.low), 1 / left, share.text, share.off) if left > 0 else None
    if _MORE.search(view.claim.text):
        return Said("ratio", 1 + share.low, 1 + share.high, share.text, share.off)
    return None


_LESS = re.compile(r"(?i)\b(?:less|fewer|lower|smaller|sav(?:es?|ing)|reduc\w+|cuts?|shr[aiu]nk\w*|cheaper|drops?)\b")
_MORE = re.compile(r"(?i)\b(?:more|faster|higher|larger|bigger|greater|longer|quicker|slower)\b")
"""What a share adds to, and what it is taken from: "12 % faster" is 1.12, and "saves 50 %" is 2."""


def _pair(name: str, one: float, other: float, unit: str, assumed: str = "") -> Case:
    high, low = max(one, other), min(one, other)
    return Case(high / low, (Term(name, high, unit), Term(name, low, unit)), "{0} / {1}", assumed)


def _of(claimed: Said, cases: tuple[Case, ...], missing: tuple[str, ...]) -> Answer:
    return Answer("ratio", "1", claimed, cases, missing=missing)


def _direction(view: View, claimed: Said) -> int:
    """1 where the first device is said to be the larger ("H100 gives 3x A100"), -1 the smaller ("L40S is 2x slower
    than A100"), 0 where the words do not tell: the figure does not stand between the two."""
    at = view.claim.text.find(claimed.text)
    starts = [place for place in range(len(view.claim.text)) if _is_device(view.claim.text, place)]
    if not starts or not starts[0] < at < starts[-1]:
        return 0
    return -1 if re.search(r"(?i)slower|smaller|less", view.claim.text) else 1


def _is_device(text: str, at: int) -> bool:
    return (at == 0 or not text[at - 1].isalnum()) and device_at(text, at) is not None


def _directed(name: str, one: float, other: float, unit: str, assumed: str, direction: int) -> Case:
    """The first over the second, or the other way round; the larger over the smaller where nothing tells."""
    if not direction:
        return _pair(name, one, other, unit, assumed)
    above, below = (one, other) if direction > 0 else (other, one)
    return Case(above / below, (Term(name, above, unit), Term(name, below, unit)), "{0} / {1}", assumed)


def _devices(view: View, claimed: Said, one: str, other: str) -> Answer | Gap:
    direction = _direction(view, claimed)
    view.says("ratio")
    a, b = (load_device(DEVICES.get(name, name)) for name in (one, other))
    rate_a, rate_b = a.bandwidth_bytes_per_s, b.bandwidth_bytes_per_s
    cases = [_directed("bandwidth", rate_a, rate_b, "bytes/s", "bandwidth-bound", direction)]
    for form in ("bf16", "fp8"):
        rates = a.rate(form), b.rate(form)
        if rates[0] and rates[1]:
            cases.append(_directed("peak", rates[0], rates[1], "flop/s", f"compute-bound-{form}", direction))
    cases.append(_directed("memory", float(a.memory_bytes), float(b.memory_bytes), "bytes", "capacity", direction))
    binds = "bandwidth" if view.says("decode") or view.about("bandwidth") else ""
    is_size = any(each.text.lower() in ("memory", "vram") for each in view.claim.words) and not binds
    binds = "capacity" if is_size else binds
    binds = "compute" if view.says("prefill", "training", "compute-bound") else binds
    named = tuple(case for case in cases if case.assumed.startswith(binds)) if binds else ()
    return _of(claimed, named or tuple(cases), () if named else ("workload",))


def _formats(view: View, claimed: Said, one: str, other: str) -> Answer | Gap:
    """Bytes against bytes: what a decode step gains where weights are all that it reads."""
    view.says("ratio")
    subject = said_model(view) or Subject(1e9, None)
    wide, narrow = sorted(((stored_as(subject, name), word) for word in (one, other) for name in FORMATS[word][:1]),
                          key=lambda each: -each[0].bits)  # fmt: skip
    cases = tuple(
        _pair("bits", wide[0].bits, stored_as(subject, name).bits, "bits", name) for name in FORMATS[narrow[1]]
    )
    return _of(claimed, cases, ("workload",))


def _states(view: View, claimed: Said) -> Answer:
    """Optimizer states over weights, for 16-bit and for 32-bit weights."""
    states = OPTIMIZERS[view.name("optimizer") or "adamw"]
    word = view.name("format")
    widths = (WEIGHT_FORMATS[word].matrices / 8,) if word in ("fp32", "fp16", "bf16") else (2.0, 4.0)
    cases = tuple(
        Case(states / width, (Term("states", states, "bytes/parameter"), Term("weights", width, "bytes/parameter")),
             "{0} / {1}", f"{8 * width:g}-bit-weights" if len(widths) > 1 else "")
        for width in widths
    )  # fmt: skip
    return _of(claimed, cases, ())
