"""Rows of training tables as questions to the model."""

from __future__ import annotations

import re

from benchmarks.prediction import names
from benchmarks.prediction.cases import Case, No, number
from twinlens.spec.device import Device

_DEGREES = {"tensor": "tp", "pipeline": "pp", "virtual": "vp", "context": "cp", "expert": "ep"}


def training_case(row: dict[str, str], kind: str, value: float, file: str, card: Device, line: int) -> Case:
    """The question of one row. Raises No with the reason where it leaves out what decides the answer."""
    model, source = names.model_name(row["model"]) or "", row.get("source", "").lower()
    precision = names.precision_name(row.get("precision", "")) or "bf16"
    devices = int(number(row.get("n_gpus", "")) or 0)
    if devices < 1:
        raise No("the number of devices is not stated")
    if kind not in ("train-rate", "train-step", "train-samples", "memory"):
        raise No(
            "the peak of memory includes what the allocator keeps; recompute and precision are not stated"
            if kind == "memory-peak"
            else f"no prediction of {kind} for training"
        )
    text = row.get("parallelism", "")
    more: dict[str, object] = {}
    engine = (
        "nemo"
        if "nemo" in source
        else "megatron"
        if "megatron" in source or "calculon" in source
        else "fsdp"
        if "fsdp" in text.lower()
        else "unknown"
    )
    if "mlperf" in source:
        engine = "mlperf-amd" if card.vendor == "AMD" else "mlperf"
        precision = "fp8" if card.rate("fp8") else "bf16"
        if not text and not (devices == 8 and "lora" in row["model"].lower()):
            raise No("layout and precision are not stated")
        more["version"] = source.rsplit("v", 1)[-1]
    elif "nemo" in source:
        more["version"] = re.sub(r"[^0-9.]", "", source.rsplit("-", 1)[-1])
    low = text.lower()

    def degree(name: str, default: float = 1.0) -> float:
        found = re.search(rf"(?<![a-z]){name}[ =]*(\d+)", low)
        return float(found.group(1)) if found else default

    batch = row.get("batch_or_concurrency", "").lower()
    gbs, mbs = re.search(r"gbs *=? *(\d+)", batch), re.search(r"mbs *=? *(\d+)", batch)
    length = number(row.get("input_len", ""))
    if gbs is None or length is None:
        raise No("the batch or the length of sequences is not stated")
    layout = {name: degree(key) for name, key in _DEGREES.items()}
    layout["devices"] = float(devices)
    layout["gathered"] = 1.0 if "full_shard" in low or degree("fsdp", 0.0) > 1 or "shard_grad_op" in low else 0.0
    layout["frozen"] = 1.0 if "lora" in row["model"].lower() or row.get("note", "").lower().startswith("lora") else 0.0
    full = "full recompute" in low or "ckpt=true" in low
    layout["recompute"] = 1.0 if full else 0.0
    more["selective"] = "selective" in low
    more["sequence-parallel"] = "seq-parallel" in low or "seq parallel" in low
    world = layout["tensor"] * layout["pipeline"] * layout["context"]
    if world > devices or devices % world:
        raise No(f"a layout of {world:g} devices does not divide {devices}")
    if re.search("ms$", row.get("unit", "")):
        value /= 1e3
    if kind == "memory":
        more["part"] = "state" if "optimizer" in row["metric"] else "activation"
        value *= 2**30
    more["samples"] = kind == "train-samples"
    if kind == "train-samples":
        if "samples/s" not in row.get("unit", ""):
            raise No("the unit of the logged throughput is not known")
        kind, value = "train-step", float(gbs.group(1)) / value
        # Some logs count per device.
    tokendrop = "tokendrop" in row["model"].lower()
    more["tokendrop"] = tokendrop
    return Case(
        kind,
        value,
        file,
        model,
        card,
        devices,
        precision,
        engine,
        layout,
        float(gbs.group(1)),
        length,
        float(mbs.group(1)) if mbs else 1.0,
        more,
        line,
    )
