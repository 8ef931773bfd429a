"""Claims on devices and models alone: datasheet figures, links, layers and parameters.

Rates are dense; makers also quote twice as much, with structured sparsity. Links are quoted one way, and both ways.
"""

from __future__ import annotations

from twinlens.claims.memory import visible
from twinlens.claims.part import link_rates
from twinlens.claims.said import Answer, Case, Gap, Said, Term, View, remark
from twinlens.claims.subject import devices_of, said_device
from twinlens.record.finding import Finding
from twinlens.spec.device import Device
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.parameter import parameters

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
    terms = (Term("peak", dense, "flop/s"), *((Term("sparsity", sparse, "1"),) if sparse != 1 else ()),
             *((Term("devices", many, "devices"),) if many != 1 else ()))  # fmt: skip
    formula = " × ".join(f"{{{place}}}" for place in range(len(terms)))
    case = Case(dense * sparse * many, terms, formula)
    return Answer("device", "flop/s", said, (case,), assumed=device[1], remarks=_why(said, device[0], dense))


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
    cases = tuple(case for name, each in sizes.items() if each for case in _of_many(Term(what, each, unit), many, name))
    if view.says("of-all"):
        cases = tuple(case for case in cases if case.assumed != "of-each")
    remarks = visible(device[0]) if what == "memory" else ()
    return Answer("device", unit, said, cases, assumed=device[1], remarks=remarks) if cases else None


def _of_many(each: Term, many: float | None, name: str) -> tuple[Case, ...]:
    """A figure of one device, or of all that are counted: both are usual where several are named."""
    own = Case(each.value, (each,), "{0}", name)
    if not many or many == 1:
        return (own,)
    terms = (Term("devices", many, "devices"), each)
    return (
        Case(many * each.value, terms, "{0} × {1}", name or "of-all"),
        Case(each.value, (each,), "{0}", name or "of-each"),
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
    cases = [Case(float(own[kind]), (Term(kind, own[kind], unit),), "{0}")]
    if kind == "active":
        inner = counted.active - counted.embedding
        cases.append(Case(float(inner), (Term(kind, inner, unit),), "{0}", "no-embedding"))
    return Answer("model", unit, said, tuple(cases))


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
        twice = (remark("both-ways"),) if any(low <= case.value <= high for case in both) else ()
        return Answer("link", "bytes/s", claimed, one, remarks=twice)
    if view.says("both-ways"):
        return Answer("link", "bytes/s", claimed, both)
    return Answer("link", "bytes/s", claimed, (*one, *both), missing=("direction",))


def _ways(name: str, ways: int) -> tuple[Case, ...]:
    """Its bandwidth in one or both directions; of PCI Express as signalled, and as data after coding."""
    words = "one-way" if ways == 1 else "both-ways"
    each = link_rates()[name]
    if name.startswith("infiniband"):
        return (Case(each, (Term("one-way", each, "bytes/s"),), "{0}", words),) if ways == 1 else ()
    if not name.startswith("pcie"):
        return (Case(ways * each, (Term("ways", ways, "1"), Term("one-way", each, "bytes/s")), "{0} × {1}", words),)
    signalled = {"pcie3": 16e9, "pcie4": 32e9, "pcie5": 64e9, "pcie6": 128e9}[name]
    terms = (Term("ways", ways, "1"), Term("one-way", signalled, "bytes/s"))
    plain = Case(ways * signalled, terms, "{0} × {1}", words)
    if name == "pcie6":
        return (plain,)
    coded = Case(plain.value * _CODED, (*terms, Term("coding", _CODED, "share")), "{0} × {1} × {2}", f"{words}-coded")
    return (plain, coded)
