"""Rows of training tables as questions to the model."""

from __future__ import annotations

import re

from benchmarks.prediction import names
from benchmarks.prediction.case import Case, Line, No

_DEGREES = {"tensor": "tp", "pipeline": "pp", "virtual": "vp", "context": "cp", "expert": "ep"}
_KINDS = ("train-rate", "train-step", "train-samples", "memory")


def training_case(stated: Line) -> Case:
    """The question of one row. Raises No with the reason where it leaves out what decides the answer."""
    devices = int(stated.number("n_gpus") or 0)
    if devices < 1:
        raise No("the number of devices is not stated")
    if stated.kind not in _KINDS:
        raise No(
            "the peak of memory includes what the allocator keeps; recompute and precision are not stated"
            if stated.kind == "memory-peak"
            else f"no prediction of {stated.kind} for training"
        )
    engine, version = _engine(stated)
    precision = names.precision_name(stated.row.get("precision", "")) or "bf16"
    if "mlperf" in engine:
        precision = "fp8" if stated.card.rate("fp8") else "bf16"
        if not stated.row.get("parallelism", "") and not (devices == 8 and "lora" in stated.cell("model")):
            raise No("layout and precision are not stated")
    batch = stated.cell("batch_or_concurrency")
    gbs, mbs = re.search(r"gbs *=? *(\d+)", batch), re.search(r"mbs *=? *(\d+)", batch)
    length = stated.number("input_len")
    if gbs is None or length is None:
        raise No("the batch or the length of sequences is not stated")
    text, layout = stated.cell("parallelism"), _layout(stated, devices)
    more: dict[str, object] = {
        "version": version,
        "selective": "selective" in text,
        "sequence-parallel": "seq-parallel" in text or "seq parallel" in text,
    }
    if stated.kind == "memory":
        more["part"] = "state" if "optimizer" in stated.row["metric"] else "activation"
    kind, value = _in_si(stated, float(gbs.group(1)))
    return stated.case(
        kind, value, names.model_name(stated.row["model"]) or "", devices, precision, engine, layout=layout,
        batch=float(gbs.group(1)), prompt=length, answer=float(mbs.group(1)) if mbs else 1.0, more=more,
    )  # fmt: skip


def _engine(stated: Line) -> tuple[str, str]:
    """The engine, and the round or release of it that the table is of; "" where none is stated."""
    source = stated.cell("source")
    if "mlperf" in source:
        return "mlperf-amd" if stated.card.vendor == "AMD" else "mlperf", source.rsplit("v", 1)[-1]
    if "nemo" in source:
        return "nemo", re.sub(r"[^0-9.]", "", source.rsplit("-", 1)[-1])
    if "megatron" in source or "calculon" in source:
        return "megatron", ""
    return "fsdp" if "fsdp" in stated.cell("parallelism") else "unknown", ""


def _layout(stated: Line, devices: int) -> dict[str, float]:
    """Degrees as stated. Raises No where they do not divide the devices."""
    text = stated.cell("parallelism")

    def degree(name: str, default: float = 1.0) -> float:
        found = re.search(rf"(?<![a-z]){name}[ =]*(\d+)", text)
        return float(found.group(1)) if found else default

    layout = {name: degree(key) for name, key in _DEGREES.items()}
    world = layout["tensor"] * layout["pipeline"] * layout["context"]
    if world > devices or devices % world:
        raise No(f"a layout of {world:g} devices does not divide {devices}")
    gathered = "full_shard" in text or degree("fsdp", 0.0) > 1 or "shard_grad_op" in text
    frozen = "lora" in stated.cell("model") or stated.cell("note").startswith("lora")
    recompute = "full recompute" in text or "ckpt=true" in text
    named = {"devices": devices, "gathered": gathered, "frozen": frozen, "recompute": recompute}
    return {**layout, **{name: float(value) for name, value in named.items()}}


def _in_si(stated: Line, sequences: float) -> tuple[str, float]:
    """The metric and its value: seconds of a step, tokens/s of a device, or bytes."""
    value = stated.value * (1e-3 if re.search("ms$", stated.row.get("unit", "")) else 1.0)
    if stated.kind == "memory":
        return "memory", value * 2**30
    if stated.kind != "train-samples":
        return stated.kind, value
    if "samples/s" not in stated.row.get("unit", ""):
        raise No("the unit of the logged throughput is not known")
    return "train-step", sequences / value
