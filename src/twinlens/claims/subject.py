"""Parts of a claim: its model's parameters and layers, its formats, its devices; each said, usual, or missing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from twinlens.claims.names import DEVICES, FORMATS, KV_BYTES, USUAL
from twinlens.claims.said import Said, View, assumed, by_name
from twinlens.record.finding import Finding
from twinlens.spec.device import Device, load_device
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.figure import Figure, Input, by_law, product
from twinlens.theory.law import LAWS
from twinlens.theory.memory import kv_bytes, kv_bytes_per_token
from twinlens.theory.parameter import parameters
from twinlens.theory.weight_format import WEIGHT_FORMATS, mean_bits, weight_format

_SAME, _NEAR = 0.01, 0.05
_RATE_OF = {"fp8": "fp8", "w8a8": "int8", "int8": "int8", "nvfp4": "fp4", "mxfp4": "fp4", "fp4": "fp4", "fp32": "fp32",
            "float32": "fp32", "32-bit": "fp32", "fp16": "fp16"}  # fmt: skip
"""Formats that multiply at a rate of their own; the others are widened to 16 bits first."""
Notes = tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A model: parameters, and its shape where it is known. `assumed` says what was taken for granted."""

    params: float
    shape: DecoderShape | None
    assumed: Notes = ()
    name: str = ""

    @property
    def active(self) -> float:
        """Parameters that one token passes."""
        return float(parameters(self.shape).active) if self.shape and self.shape.experts else self.params

    def flop(self, law: str, tokens: float) -> float:
        """FLOP of so many tokens by a law that counts parameters alone."""
        return float(LAWS[law].value({"active-params": self.active, "tokens": tokens}))

    @property
    def nominal(self) -> float | None:
        """The size in its name ("llama-2-7b"), with which people compute; None where it is the same, or far off."""
        found = re.search(r"-(\d+(?:\.\d+)?)b(?!\w)", self.name)
        size = float(found[1]) * 1e9 if found else self.params
        return size if _SAME < abs(size / self.params - 1) < 2 * _NEAR and size != self.params else None


@dataclass(frozen=True, slots=True)
class Stored:
    """Weights in one format. `name`: the format, a choice among what the claim's word may mean."""

    bytes: float
    bits: float
    name: str


def said_model(view: View) -> Subject | None:
    """The model of a claim by its name, else by its size; None where neither is said."""
    name, said = view.name("model"), view.claim.all("params")
    if name is not None:
        shape = load_model(name).shape
        if isinstance(shape, DecoderShape):
            total = float(parameters(shape).total)
            view.used.update(each for each in said if abs(each.value / total - 1) < _NEAR)
            return Subject(total, shape, name=name)
    one = view.one("params")
    if one is None:
        return None
    is_other = any(each.kind == "family" for each in view.claim.words)
    usual = None if is_other else USUAL.get(one.value)
    if usual is None:
        return Subject(view.value("params") or one.value, None)
    shape = load_model(usual).shape
    assert isinstance(shape, DecoderShape)
    return Subject(float(parameters(shape).total), shape, (assumed("model", usual),), usual)


def stored_of(view: View, subject: Subject, default: str | None = None) -> tuple[Stored, ...]:
    """Weights in each format that the claim's word may mean; () where it names none and there is no default."""
    word, bits, each = view.name("format"), view.value("bits"), view.value("bytes_per_param")
    bits = 8 * each if each is not None else bits
    if bits is not None:
        return (Stored(subject.params * bits / 8, bits, f"{bits:g}-bit"),)
    word = word or default or (load_model(subject.name).released if subject.name else None)
    return () if word is None else tuple(stored_as(subject, name) for name in FORMATS.get(word, (word,)))


def stored_as(subject: Subject, name: str) -> Stored:
    """The weights of a model in one format; without its shape, at the bits that a usual model has on the average."""
    if name in ("4-bit", "8-bit"):
        bits = float(name[0])
    elif name in ("nvfp4", "mxfp4"):
        bits = WEIGHT_FORMATS[name].matrices  # every weight: the least that the format can take
    elif subject.shape is None:
        kept = weight_format(name)
        bits = mean_bits(_usual_shape(), kept) if kept.more is not None else kept.matrices
    else:
        bits = mean_bits(subject.shape, weight_format(name))
    return Stored(subject.params * bits / 8, bits, name)


def _usual_shape() -> DecoderShape:
    shape = load_model("llama-2-7b").shape
    assert isinstance(shape, DecoderShape)
    return shape


@dataclass(frozen=True, slots=True)
class Cache:
    """The KV cache: bytes that a token adds, and a function of context and users to all of its bytes."""

    per_token: float
    shape: DecoderShape | None
    element: float
    assumed: Notes

    def held(self, context: float, users: float = 1.0) -> float:
        """Bytes of `users` of `context` tokens each, windows and states as theory counts them."""
        if self.shape is None:
            return self.per_token * context * users
        return float(kv_bytes(self.shape, context, self.element, sequences=users))


def cache_of(view: View, subject: Subject | None) -> Cache | None:
    """The cache of a claim's model; None where no layers are known."""
    word = view.name("kv_format") or (view.name("format") if view.about("kv") or view.peek("kv_token") else None)
    word = word if word in KV_BYTES else _KV_ALIAS.get(word or "")
    notes = () if word else (assumed("kv-format", "fp16"),)
    size = KV_BYTES[word or "fp16"]
    is_said = (view.peek("bytes") or view.peek("rate") or view.about("fits")) and not (subject and subject.shape)
    if is_said and (said := view.value("kv_token")) is not None:
        return Cache(said, None, size, ())
    layers, heads, width = (view.value(kind) for kind in ("layers", "kv_heads", "head_dim"))
    if layers and heads and width:
        return Cache(2 * layers * heads * width * size, None, size, notes)
    if subject is None or subject.shape is None:
        return None
    each = float(kv_bytes_per_token(subject.shape, size))
    return Cache(each, subject.shape, size, (*subject.assumed, *notes))


_KV_ALIAS = {"half precision": "fp16", "float16": "fp16", "bfloat16": "bf16"}


def context_of(view: View) -> float | None:
    """Tokens of one sequence, also where they are said in millions."""
    return view.value("context") if view.peek("context") else view.value("tokens")


def said_device(view: View) -> tuple[Device, Notes] | None:
    """The device of a claim; a short name is read as the usual one, which is said."""
    name = view.name("device")
    if name is None:
        return None
    whole = DEVICES.get(name, name)
    return load_device(whole), (assumed("device", whole),) if whole != name else ()


def devices_of(view: View) -> float | None:
    """How many devices are said; eight for one DGX or HGX."""
    many = view.value("devices")
    if many in (None, 8.0) and view.says("node-of-8"):
        return 8.0
    return many


def room_of(view: View) -> tuple[float | None, Notes]:
    """Bytes of all devices: as said of each, else as said, else of the device in the catalogue."""
    many = devices_of(view) or 1.0
    device = said_device(view)
    each, whole = view.claim.all("card_bytes"), view.claim.all("bytes")
    own = float(device[0].memory_bytes) if device else None
    for said in (*each, *whole):
        if own and (abs(said.value / own - 1) < _NEAR or abs(said.value / (own * many) - 1) < _NEAR):
            view.used.add(said)  # it says again what the device has
    if (one := view.one("card_bytes")) is not None:
        return one.value * many, ()
    if device is not None and not (whole and set(whole) <= view.used):
        notes = (*device[1], assumed("device-memory", device[0].name, memory=float(device[0].memory_bytes)))
        if not whole or _is_beside(view, whole):
            return device[0].memory_bytes * many, notes
    if (said_room := view.one("bytes")) is not None:
        is_all = device is not None and abs(said_room.value / ((own or 1.0) * many) - 1) < _NEAR
        return said_room.value * (1.0 if is_all else many), ()
    return None, ()


def _is_beside(view: View, whole: tuple[Said, ...]) -> bool:
    """Whether bytes are the claimed size of something that must fit, and not the room: they come before the device."""
    first = min((each.at for each in view.claim.words if each.kind == "device"), default=-1)
    fits = next((each.at for each in view.claim.words if each.name == "fits"), len(view.claim.text))
    return all(each.at < fits < first for each in whole)


def is_memory_of_device(view: View, said: Said) -> bool:
    """Whether bytes are the memory of the device beside them ("H100 80GB", in GB or GiB), and not those of weights."""
    found = said_device(view)
    return found is not None and 0.92 <= said.value / found[0].memory_bytes <= 1.08


def bandwidth_of(view: View) -> tuple[float | None, Notes]:
    """Bandwidth of all devices together, as said or by the datasheet."""
    if view.peek("bandwidth"):
        value, many, known = view.value("bandwidth") or 0.0, devices_of(view) or 1.0, said_device(view)
        is_all = known is not None and abs(value / (known[0].bandwidth_bytes_per_s * many) - 1) < _NEAR
        is_all = is_all or view.says("of-all")
        return value * (1.0 if is_all else many), ()  # said of one device, as makers do
    device, many = said_device(view), devices_of(view) or 1.0
    if device is None:
        return None, ()
    rate = device[0].bandwidth_bytes_per_s
    return rate * many, (*device[1], assumed("device-bandwidth", device[0].name, bandwidth=rate))


def peak_of(view: View) -> tuple[float | None, Notes]:
    """FLOP/s of one device as said, else its own in the format that multiplies, and what was assumed for it."""
    if view.peek("flop_rate"):
        return view.value("flop_rate"), ()
    device = said_device(view)
    if device is None:
        return None, ()
    rate = device[0].rate(_RATE_OF.get(view.name("format") or "", "bf16"))
    rate = rate or device[0].rate("bf16") or device[0].rate("fp16")
    return rate, (*device[1], *((assumed("device-peak", device[0].name, flop_per_s=rate),) if rate else ()))


def held_by(cache: Cache, context: float, users: float) -> Figure:
    """The cache as a product: per token, context, users; of a model with windows, that of a user times users."""
    many = Input("users", users, "users")
    each = cache.held(context)
    if abs(each / (cache.per_token * context) - 1) > 1e-9:
        return product("kv", "bytes", (Input("kv-of-a-user", each, "bytes"), many))
    of_a_token = Input("kv-per-token", cache.per_token, "bytes/token")
    return by_law("kv", by_name(of_a_token, Input("context", context, "tokens"), many))
