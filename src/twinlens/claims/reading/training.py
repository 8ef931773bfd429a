"""Claims on what training keeps: weights, gradients, optimizer states, a checkpoint, and where all that fits."""

from __future__ import annotations

import math
from collections.abc import Iterator

from twinlens.claims.reading.memory import memory_case, room_answer
from twinlens.claims.said import (
    Answer,
    Gap,
    Said,
    View,
    assumed,
    beside,
    lacking,
    solved,
)
from twinlens.claims.subject import (
    devices_of,
    room_of,
    said_model,
    stored_of,
)
from twinlens.record.finding import Finding
from twinlens.theory.figure import Figure
from twinlens.theory.memory import LAYOUTS, OPTIMIZERS, with_optimizer

_MIXED = LAYOUTS["16-bit-fp32-master"]
_LAYOUTS = {
    "weights-only": _MIXED.weights, "weights-and-gradients": _MIXED.weights + _MIXED.gradients,
    "adamw-8bit": LAYOUTS["16-bit-8-bit-optimizer"].total,
    "adamw-bf16": LAYOUTS["16-bit-pure"].total, "adamw-no-master": LAYOUTS["16-bit-no-master"].total,
    "adamw-master": _MIXED.total,
    "adamw-master-fp32-gradients": LAYOUTS["16-bit-fp32-master-and-gradients"].total,
}  # fmt: skip
_SAVED = {
    "weights-and-states": _MIXED.weights + _MIXED.optimizer, "master-and-states": _MIXED.master + _MIXED.optimizer,
    "weights-master-and-states": _MIXED.weights + _MIXED.master + _MIXED.optimizer,
}  # fmt: skip
_STATES = {"states", "gradients", "master", *OPTIMIZERS}


def training_memory(view: View) -> Answer | Gap | None:
    """ "70B full fine-tuning needs 500 GB": weights, gradients, optimizer, master copy; activations come on top."""
    asked = view.says("training", "lora", "checkpoint", *_STATES) | view.peek("bytes_per_param")
    claimed = view.one("bytes")
    if claimed is None or not asked or view.name("format") == "qlora":
        return None
    view.says("weights", "sharded", "needs")
    subject = said_model(view)
    if view.about("lora") and subject is not None:
        stored = stored_of(view, subject, "bf16")[0]
        least = subject.params * (stored.bits if view.claim.names("format") else 4.0) / 8  # a frozen copy may be narrow
        case = memory_case("training-memory", subject.params, stored.bits / 8, "")
        return Answer(
            claimed, (case,), bound="at-least", assumed=(assumed("frozen-weights", "BF16"),),
            missing=("adapters", "activations"), is_open=claimed.range[1] >= least,
        )  # fmt: skip
    optimizer = view.name("optimizer")
    if subject is None:
        return Gap("training-memory", ("model", *(() if optimizer else ("optimizer",))))
    many = devices_of(view) if claimed.per == "device" else 1.0
    if many is None:
        return Gap("training-memory", ("devices",))
    layouts = tuple(_part_of(view)) or layouts_of(view)
    cases = tuple(memory_case("training-memory", subject.params, each, name, many) for name, each in layouts)
    is_named = bool(optimizer or view.peek("bytes_per_param"))
    return Answer(
        claimed, cases,
        missing=(*(() if is_named else ("optimizer",)), "activations"),
        solutions=tuple(_same_memory(claimed, subject.params / many, {case.reading for case in cases})),
    )  # fmt: skip


def _part_of(view: View) -> Iterator[tuple[str, float]]:
    """A part that a claim names alone: gradients, or states of an optimizer; or what a checkpoint holds."""
    if view.about("checkpoint"):
        yield from _SAVED.items()
    elif view.about("training", "weights", "master") or view.peek("bytes_per_param"):
        return
    elif view.about("gradients") and not view.about("states", *OPTIMIZERS):
        wide = 4.0 if view.name("format") in ("fp32", "32-bit", "float32") else 2.0
        yield "", wide
    elif view.about("states") and not view.about("gradients"):
        word, kind = view.name("format"), view.name("optimizer") or "adamw"
        if word in ("bf16", "fp16", "16-bit") and kind == "adamw":
            yield "", OPTIMIZERS["adamw-bf16"]
        elif word in (None, "fp32", "32-bit", "float32") or kind != "adamw":
            yield "", OPTIMIZERS[kind]


def layouts_of(view: View) -> tuple[tuple[str, float], ...]:
    """The layouts that a claim may mean: of its optimizer, of its bytes per parameter, else the usual ones."""
    said, optimizer = view.one("bytes_per_param"), view.name("optimizer")
    if said is not None:
        return tuple(("", each) for each in dict.fromkeys((said.low or 0.0, said.high or 0.0)))
    if optimizer == "adamw":
        return tuple((name, each) for name, each in _LAYOUTS.items() if name.startswith("adamw-") and each >= 12.0)
    if optimizer in _LAYOUTS:
        return ((optimizer or "", _LAYOUTS[optimizer or ""]),)
    if optimizer is not None:
        plain, master = LAYOUTS["16-bit-no-master"], _MIXED
        return ((optimizer, with_optimizer(plain, optimizer).total),
                (f"{optimizer}-master", with_optimizer(master, optimizer).total))  # fmt: skip
    return tuple((name, each) for name, each in _LAYOUTS.items() if each >= 6.0)


def _same_memory(claimed: Said, params: float, taken: set[str]) -> Iterator[Finding]:
    low, high = claimed.range
    for name, each in _LAYOUTS.items():
        if low <= params * each <= high and name not in taken:
            yield solved("training-memory", "bytes", params * each, {"layout": name})
    yield solved("training-memory", "bytes", claimed.value, {"bytes_per_param": claimed.value / params})


def training_fit(view: View) -> Answer | Gap | None:
    """ "70B full fine-tuning fits on 4 H200": bytes per parameter of each usual layout; activations come on top."""
    is_training = view.says("training", *_STATES)
    if not is_training or view.name("format") == "qlora" or view.says("lora"):
        return None
    if not (view.says("fits") or view.claim.names("device") or view.peek("card_bytes")) or any(
        map(view.peek, ("time", "rate", "tokens", "share"))
    ):
        return None
    subject = said_model(view)
    room, where = room_of(view)
    if subject is None or room is None:
        return Gap("training-memory", lacking({"model": subject, "device": room}))
    cases = tuple(memory_case("memory", subject.params, each, name) for name, each in layouts_of(view))
    is_named = bool(view.name("optimizer") or view.peek("bytes_per_param"))
    return room_answer(
        view, room, cases, (*where, *beside(subject.assumed)),
        (*(() if is_named else ("optimizer",)), "activations", "runtime-memory"),
        tuple(_more(cases, room, devices_of(view) or 1.0)),
    )  # fmt: skip


def _more(cases: tuple[Figure, ...], room: float, devices: float) -> Iterator[Finding]:
    """How many such devices the usual reading takes, where there are too few."""
    usual = next((case for case in cases if case.reading == "adamw-master"), cases[0])
    if usual.number > room:
        count = math.ceil(usual.number / (room / devices))
        yield solved("memory", "bytes", count * room / devices, {"devices": count, "layout": usual.reading})
