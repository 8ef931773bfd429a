"""Claims on devices, models and links: datasheet figures, layers and parameters, and ratios of two.

Rates are dense; makers also quote twice as much, with structured sparsity. Links are quoted one way, and both ways.
"""

from __future__ import annotations

import re

from twinlens.claims.algebra import UNITS
from twinlens.claims.names import DEVICES, FORMATS, device_at
from twinlens.claims.reading.memory import visible
from twinlens.claims.reading.part import link_rates
from twinlens.claims.said import UNREADABLE, Answer, Gap, Said, View, remark
from twinlens.claims.subject import Subject, devices_of, said_device, said_model, stored_as
from twinlens.errors import BadInput
from twinlens.record.finding import Finding
from twinlens.spec.device import Device, load_device
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.figure import Figure, Input, product
from twinlens.theory.memory import OPTIMIZERS
from twinlens.theory.parameter import parameters
from twinlens.theory.weight_format import WEIGHT_FORMATS

_CODED = 128 / 130  # of PCI Express 3 to 5


def bandwidth(view: View) -> Answer | None:
    """ "An H100 has 3.35 TB/s", or eight of them 26.8."""
    return None if view.about("all-reduce") else _of_sheet(view, "bandwidth", "bandwidth", "bytes/s")


def memory(view: View) -> Answer | None:
    """ "An H100 has 80 GB": by the datasheet; where the claim says GiB, by what the driver shows as well."""
    if view.about("fits", "kv", "training") or view.claim.names("model") or view.peek("params"):
        return None
    return _of_sheet(view, "card_bytes" if view.peek("card_bytes") else "bytes", "memory", "bytes")


def power(view: View) -> Answer | None:
    """ "An L4 has a TDP of 72 W"; of several devices, their sum."""
    if view.peek("time") or view.peek("price_kwh"):
        return None
    view.says("tdp")
    return _of_sheet(view, "power", "power", "w")


def rate(view: View) -> Answer | Gap | None:
    """ "An H100 has 1979 TFLOPS FP8": the dense rate of a format, or with structured sparsity where that is said."""
    said, device = view.one("flop_rate"), said_device(view)
    if said is None or device is None or view.about("mfu", "all-reduce") or view.peek("share"):
        return None
    view.says("peak", "dense")
    word = view.name("format")
    name = {"nvfp4": "fp4", "mxfp4": "fp4", "half precision": "fp16", "16-bit": "fp16", "float16": "fp16",
            "bfloat16": "bf16", "float32": "fp32", "8-bit": "int8"}.get(word or "", word)  # fmt: skip
    dense = device[0].rate(name) if name else None
    if dense is None:
        return Gap("device", ("precision",))
    sparse = (device[0].sparse_times or 1.0) if view.says("sparse") else 1.0
    many = devices_of(view) or 1.0
    inputs = (Input("peak", dense, "flop/s"), *((Input("sparsity", sparse, "1"),) if sparse != 1 else ()),
              *((Input("devices", many, "devices"),) if many != 1 else ()))  # fmt: skip
    case = product("device", "flop/s", inputs)
    return Answer(said, (case,), assumed=device[1], remarks=_why(said, device[0], dense))


def _of_sheet(view: View, kind: str, what: str, unit: str) -> Answer | None:
    said, device = view.one(kind), said_device(view)
    if said is None or device is None or view.claim.names("link"):
        return None
    view.says("machine", "bandwidth", "peak")
    value = {
        "bandwidth": device[0].bandwidth_bytes_per_s,
        "memory": float(device[0].memory_bytes),
        "power": device[0].tdp_w,
    }
    sizes = {"": value[what]}
    if what == "memory" and "iB" in said.text:
        sizes["driver"] = float(device[0].memory_visible_bytes or 0) or None
    many = 1.0 if said.per == "device" or (view.says("each") and not view.peek("sequences")) else devices_of(view)
    cases = tuple(
        case for name, each in sizes.items() if each for case in _of_many(Input(what, each, unit), many, name)
    )
    if view.says("of-all"):
        cases = tuple(case for case in cases if case.reading != "of-each")
    remarks = visible(device[0]) if what == "memory" else ()
    return Answer(said, cases, assumed=device[1], remarks=remarks) if cases else None


def _of_many(each: Input, many: float | None, name: str) -> tuple[Figure, ...]:
    """A figure of one device, or of all that are counted: both are usual where several are named."""
    if not many or many == 1:
        return (product("device", each.unit, (each,), reading=name),)
    return (
        product("device", each.unit, (Input("devices", many, "devices"), each), reading=name or "of-all"),
        product("device", each.unit, (each,), reading=name or "of-each"),
    )


def _why(said: Said, device: Device, dense: float) -> tuple[Finding, ...]:
    low, high = said.range
    narrower = next((name for name in ("fp8", "fp4") if low <= (device.rate(name) or 0.0) <= high), None)
    found = [remark("sparse")] if low <= 2 * dense <= high else []
    return (*found, *((remark("narrower", format=narrower.upper()),) if narrower else ()))


def model_figure(kind: str, view: View) -> Answer | None:
    """ "DeepSeek V3 has 671B parameters, 37B active", "Llama 3 70B has 80 layers": a number of the model's own."""
    name, said = view.name("model"), view.one(kind)
    shape = load_model(name).shape if name and said else None
    if not isinstance(shape, DecoderShape) or said is None:
        return None
    counted = parameters(shape)
    view.says("per-token")
    own = {"active": counted.active, "params": counted.total, "kv_heads": shape.kv_heads, "heads": shape.heads,
           "layers": shape.layers}  # fmt: skip
    unit = "parameters" if kind in ("active", "params") else kind.replace("_", " ")
    cases = [product("model", unit, (Input(kind, own[kind], unit),))]
    if kind == "active":
        inner = Input(kind, counted.active - counted.embedding, unit)
        cases.append(product("model", unit, (inner,), reading="no-embedding"))
    return Answer(said, tuple(cases))


def link(view: View) -> Answer | Gap | None:
    """ "NVLink 4 has 900 GB/s": both ways together, half of that each way."""
    name = view.name("link")
    claimed = view.one("bandwidth") if name else None
    if claimed is None or name is None or view.peek("rate") or view.about("all-reduce"):
        return None
    device = said_device(view)
    if name == "nvlink" and device is not None and (device[0].link or "").startswith("nvlink"):
        name = device[0].link or name
    view.says("per-device")
    if name not in link_rates():
        return Gap("link", ("link-generation",))
    one, both = _ways(name, 1), _ways(name, 2)
    if view.says("one-way"):
        low, high = claimed.range
        twice = (remark("both-ways"),) if any(low <= case.number <= high for case in both) else ()
        return Answer(claimed, one, remarks=twice)
    if view.says("both-ways"):
        return Answer(claimed, both)
    return Answer(claimed, (*one, *both), missing=("direction",))


def _ways(name: str, ways: int) -> tuple[Figure, ...]:
    """Its bandwidth in one or both directions; of PCI Express as signalled, and as data after coding."""
    words = "one-way" if ways == 1 else "both-ways"
    signalled = {"pcie3": 16e9, "pcie4": 32e9, "pcie5": 64e9, "pcie6": 128e9}.get(name, link_rates()[name])
    each = Input("one-way", signalled, "bytes/s")
    if name.startswith("infiniband"):
        return (product("link", "bytes/s", (each,), reading=words),) if ways == 1 else ()
    inputs = (Input("ways", ways, "1"), each)
    plain = product("link", "bytes/s", inputs, reading=words)
    if not name.startswith("pcie") or name == "pcie6":
        return (plain,)
    coded = (*inputs, Input("coding", _CODED, "share"))
    return (plain, product("link", "bytes/s", coded, reading=f"{words}-coded"))


# Claims on ratios: of two devices, two formats, two bandwidths, two times, or optimizer states against weights.


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


def _over(name: str, above: float, below: float, unit: str, reading: str = "") -> Figure:
    return Figure(
        "ratio", above / below, "1", "{0} / {1}", (Input(name, above, unit), Input(name, below, unit)), reading=reading
    )


def _pair(name: str, one: float, other: float, unit: str, reading: str = "") -> Figure:
    return _over(name, max(one, other), min(one, other), unit, reading)


def _of(claimed: Said, cases: tuple[Figure, ...], missing: tuple[str, ...]) -> Answer:
    return Answer(claimed, cases, missing=missing)


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


def _directed(name: str, one: float, other: float, unit: str, reading: str, direction: int) -> Figure:
    """The first over the second, or the other way round; the larger over the smaller where nothing tells."""
    if not direction:
        return _pair(name, one, other, unit, reading)
    return _over(name, *((one, other) if direction > 0 else (other, one)), unit, reading)


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
    named = tuple(case for case in cases if case.reading.startswith(binds)) if binds else ()
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
        Figure("ratio", states / width, "1", "{0} / {1}",
               (Input("states", states, "bytes/parameter"), Input("weights", width, "bytes/parameter")),
               reading=f"{8 * width:g}-bit-weights" if len(widths) > 1 else "")
        for width in widths
    )  # fmt: skip
    return _of(claimed, cases, ())
