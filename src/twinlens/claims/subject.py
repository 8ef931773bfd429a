"""The subject of a claim: its model's parameters and layers, its formats, its device; each said, usual, or missing."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.claims.answer import Term, assumed
from twinlens.claims.names import DEVICES, FORMATS, KV_BYTES, USUAL
from twinlens.claims.said import Claim, Said
from twinlens.record.finding import Finding
from twinlens.spec.device import Device, load_device
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.memory import kv_bytes_per_token
from twinlens.theory.parameter import parameters
from twinlens.theory.weight_format import WEIGHT_FORMATS, mean_bits, weight_format


@dataclass(frozen=True, slots=True)
class Subject:
    """A model: parameters, and its shape where it is known. `assumed` says what was taken for granted."""

    params: float
    shape: DecoderShape | None
    assumed: tuple[Finding, ...] = ()

    @property
    def active(self) -> float:
        """Parameters that one token passes."""
        return float(parameters(self.shape).active) if self.shape and self.shape.experts else self.params


@dataclass(frozen=True, slots=True)
class Stored:
    """Weights in one format. `name`: the format, `is_read`: a choice among what the claim's word may mean."""

    bytes: float
    bits: float
    name: str


def subject_of(claim: Claim) -> Subject | None:
    """The model of a claim by its name, else by its size; None where neither is said."""
    name, size = claim.name("model"), claim.value("params")
    if name is not None:
        shape = load_model(name).shape
        if isinstance(shape, DecoderShape):
            return Subject(size or float(parameters(shape).total), shape)
    if size is None:
        return None
    usual = USUAL.get(size)
    if usual is None:
        return Subject(size, None)
    shape = load_model(usual).shape
    taken = assumed("model", usual)
    return Subject(float(parameters(shape).total), shape if isinstance(shape, DecoderShape) else None, (taken,))


def stored_of(claim: Claim, subject: Subject, default: str | None = None) -> tuple[Stored, ...]:
    """Weights in each format that the claim's word may mean; () where it names none and there is no default."""
    word = claim.name("format") or default
    bits = claim.value("bits")
    if bits is not None:
        return (Stored(subject.params * bits / 8, bits, f"{bits:g}-bit"),)
    if word is None:
        return ()
    return tuple(stored_as(subject, name) for name in FORMATS[word])


def stored_as(subject: Subject, name: str) -> Stored:
    """The weights of a model in one format; without its shape, at the bits of the format's matrices."""
    if name == "4-bit":
        bits = 4.0
    elif name in ("nvfp4", "mxfp4") or subject.shape is None:
        bits = WEIGHT_FORMATS[name].matrices  # every weight: the least that the format can take
    else:
        bits = mean_bits(subject.shape, weight_format(name))
    return Stored(subject.params * bits / 8, bits, name)


def kv_per_token(
    claim: Claim, subject: Subject | None, default: str | None = "fp16"
) -> tuple[float, tuple[Term, ...], tuple[Finding, ...]] | None:
    """Bytes that a token adds to the cache, with terms and what was assumed; None where no layers are known."""
    word = claim.name("kv_format") or (claim.name("format") if "kv" in claim.topics else None)
    word = word if word in KV_BYTES else None
    notes = () if word else (assumed("kv-format", default or "fp16"),)
    size = KV_BYTES[word or default or "fp16"]
    said = claim.value("kv_token")
    if said is not None and (claim.all("bytes") or claim.all("rate")):
        return said, (Term("kv-per-token", said, "bytes/token"),), ()
    layers, heads, width = (claim.value(kind) for kind in ("layers", "kv_heads", "head_dim"))
    if layers and heads and width:
        each = 2 * layers * heads * width * size
        return each, (Term("kv-per-token", each, "bytes/token"),), notes
    if subject is None or subject.shape is None:
        return None
    each = float(kv_bytes_per_token(subject.shape, size))
    return each, (Term("kv-per-token", each, "bytes/token"),), (*subject.assumed, *notes)


def device_of(claim: Claim) -> tuple[Device, tuple[Finding, ...]] | None:
    """The device of a claim; a short name is read as the usual one, which is said."""
    name = claim.name("device")
    if name is None:
        return None
    whole = DEVICES.get(name, name)
    device = load_device(whole)
    return device, (assumed("device", whole),) if whole != name else ()


def is_memory_of_device(claim: Claim, said: Said) -> bool:
    """Whether bytes are the memory of the device beside them ("H100 80GB", in GB or GiB), and not those of weights."""
    found = device_of(claim)
    return found is not None and 0.92 <= said.value / found[0].memory_bytes <= 1.08
