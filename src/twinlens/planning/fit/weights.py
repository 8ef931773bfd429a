"""Memory of weights on each device: as a file stores them, else parameters times the bits of a format."""

from __future__ import annotations

from twinlens.planning.figure import Figure, Input, assumed
from twinlens.planning.subject import Subject
from twinlens.theory.number import rounded_up
from twinlens.theory.parameter import expert_weights
from twinlens.theory.weight_format import WEIGHT_FORMATS, routed_bytes


def weights(subject: Subject, name: str, devices: int = 1, expert_block: int = 1) -> Figure:
    """Bytes on each of `devices`. Experts in MXFP4 are padded to whole blocks of `expert_block`."""
    padding = _padding(subject, name, expert_block)
    more = [Input("padding", padding, "1", f"experts in blocks of {expert_block}")] if padding != 1.0 else []
    over = [Input("devices", devices, "devices")] if devices > 1 else []
    if subject.stored_bytes is not None and name == subject.stored_format:
        first, formula = [Input("stored", subject.stored_bytes, "bytes", subject.source)], "{0}"
        value = float(subject.stored_bytes)
    else:
        bits = subject.weight_bits(name)
        first, formula = [subject.params_input(), Input("bits", bits, "bits", name)], "{0} × {1} / 8"
        value = subject.params * bits / 8
    tower = 2 * subject.tower
    seen = [Input("tower", tower, "bytes", "the image tower, in 16 bits")] if tower else []
    inputs = (*first, *more, *seen, *over)
    formula += f" × {{{len(first)}}}" if more else ""
    formula += f" + {{{len(first) + len(more)}}}" if seen else ""
    formula = f"({formula}) / {{{len(inputs) - 1}}}" if over and seen else formula
    formula += f" / {{{len(inputs) - 1}}}" if over and not seen else ""
    notes = () if subject.shape or subject.stored_bytes else (assumed("weights-without-layers", name),)
    return Figure(
        "weights", (value * padding + tower) / devices, "bytes", formula, inputs, assumptions=(*subject.assumed, *notes)
    )


def routed(subject: Subject, name: str, expert_block: int = 1) -> float:
    """Bytes of all routed experts with their padding, which groups of attention share."""
    kept = WEIGHT_FORMATS.get(name)
    if subject.shape is None or kept is None:
        return 0.0
    return routed_bytes(subject.shape, kept) * _longer(subject, name, expert_block)


def _padding(subject: Subject, name: str, block: int) -> float:
    """Bytes with padding over bytes without."""
    shape, kept = subject.shape, WEIGHT_FORMATS.get(name)
    experts, longer = kept.experts if kept else None, _longer(subject, name, block)
    if shape is None or shape.experts is None or experts is None or longer == 1.0:
        return 1.0
    held = shape.expert_layers * shape.experts.count * expert_weights(shape) * experts
    return 1.0 + (longer - 1) * held / (subject.params * subject.weight_bits(name))


def _longer(subject: Subject, name: str, block: int) -> float:
    """Width of an expert in whole blocks over its width; 1 for experts that are in no format of their own."""
    shape, kept = subject.shape, WEIGHT_FORMATS.get(name)
    if shape is None or shape.experts is None or kept is None or kept.experts is None:
        return 1.0
    return float(rounded_up(shape.experts.intermediate, block) / shape.experts.intermediate)
