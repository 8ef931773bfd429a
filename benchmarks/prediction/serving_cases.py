"""Rows of serving tables as questions to the model."""

from __future__ import annotations

import re

from benchmarks.prediction import names
from benchmarks.prediction.case import EVERYTHING, Case, Line, No, Row, count
from benchmarks.prediction.layouts import serving_layout
from benchmarks.prediction.mlperf_cases import mlperf_case

ENGINES = (
    (r"tensorrt|trt", "trtllm"),
    (r"sglang", "sglang"),
    (r"llama\.?cpp|llama-bench", "llama.cpp"),
    (r"deepspeed", "deepspeed"),
    (r"llmboost|mango", "llmboost"),
    (r"vllm", "vllm"),
    (r"tgi|text-generation-inference", "tgi"),
    (r"optimum|habana", "optimum"),
    (r"sambaflow|sambanova", "sambanova"),
)


def engine_of(row: Row) -> str:
    """The engine that a row names in its note, or in its source."""
    for text in (row.get("note", "").split("source_file")[0], row.get("source", ""), row.get("provenance", "")):
        for pattern, name in ENGINES:
            if re.search(pattern, text.lower()):
                return name
    return "unknown"


def release_of(row: Row, engine: str) -> str:
    """The engine's version as the row states it; "" where it does not."""
    found = re.search(r"\b(v?\d+\.\d[\w.+-]*)", row.get("note", "").split(";")[0])
    return f"{engine} {found.group(1)}" if found else ""


def serving_case(stated: Line) -> Case:
    """The question of one row. Raises No with the reason where it leaves out what decides the answer."""
    row, engine = stated.row, engine_of(stated.row)
    model = names.model_name(row["model"]) or ""
    precision = _precision(row, model)
    if stated.kind == "memory-part":
        return _memory_part(stated, model, precision)
    if "mlperf" in stated.cell("source"):
        return mlperf_case(stated, model, precision, engine)
    devices = int(stated.number("n_gpus") or 0)
    layout = serving_layout(row.get("parallelism", ""), row.get("provenance", ""), devices)
    prompt, answer, batch = _lengths(stated)
    kind, value = _in_si(stated, devices)
    if kind in ("decode-rate", "prefill-rate") or (engine == "llama.cpp" and "serial" not in layout):
        layout = _in_a_row(layout, kind, devices)
    devices, copies = _divided(layout, devices)
    heads = names.shape_of(row["model"])
    if heads is not None and heads.experts and heads.heads % layout.get("tensor", 1.0) and "workers" not in layout:
        layout = {**layout, "tensor": 1.0, "data": layout["tensor"], "expert": layout["tensor"]}  # "tp72" of a rack
    if heads is not None and layout.get("tensor", 1.0) > heads.heads:
        raise No(f"tensor parallelism of {layout['tensor']:g} over {heads.heads} heads is no legal layout")
    more: dict[str, object] = {"release": release_of(row, engine)}
    if kind in LATENCIES and re.search(r"qps|req/s|rps|rate", stated.cell("batch_or_concurrency")):
        more["rate"] = batch
    if copies is not None:
        more["copies"] = copies
    if re.search(r"argonne|\b2024\b", row.get("source", "") + row.get("note", "").split("source_file")[0]):
        more["era"] = "2024"
    return stated.case(
        kind, value, model, devices, precision, engine, layout=layout, batch=batch, prompt=prompt, answer=answer,
        more=more,
    )  # fmt: skip


LATENCIES = ("ttft", "tpot", "e2e")


def _precision(row: Row, model: str) -> str:
    precision = names.precision_name(row.get("precision", ""))
    if precision is None:
        raise No(f"unknown precision {row['precision']!r}")
    if model.startswith("gpt-oss"):
        return "mxfp4-experts"
    if "nvfp4" in row["model"].lower():
        return "nvfp4"
    return "fp8" if precision == "mxfp8" else precision


def _lengths(stated: Line) -> tuple[float, float, float]:
    """Tokens of a prompt and of an answer, and the batch. Raises No for those that the metric needs and that lack."""
    kind, batch = stated.kind, stated.number("batch_or_concurrency")
    prompt, answer = stated.number("input_len"), stated.number("output_len")
    if kind == "decode-rate":
        if answer is None:
            raise No("the number of tokens is not stated")
        return 0.0, answer or 1.0, 1.0
    if kind == "prefill-rate":
        if prompt is None:
            raise No("the number of tokens is not stated")
        return prompt, 1.0, 1.0
    if kind == "static":
        if batch is None or prompt is None or answer is None:
            raise No("batch or lengths are not stated")
    elif kind in LATENCIES:
        if batch is None:
            raise No("the concurrency is not stated")
    elif not kind.startswith("throughput"):
        raise No(f"no prediction of {kind} for serving")
    if prompt is None or answer is None:
        raise No("lengths of prompt and answer are not stated")
    if kind.startswith("throughput"):
        offline = "offline" in stated.cell("batch_or_concurrency")
        if not offline and batch is None:
            raise No("the concurrency is not stated")
        batch = EVERYTHING if offline or not batch else batch
    return prompt, answer or 1.0, batch or 1.0


def _in_si(stated: Line, devices: int) -> tuple[str, float]:
    """The metric and its value: seconds, and tokens/s of all devices."""
    kind, unit = stated.kind, stated.cell("unit")
    if kind in LATENCIES:
        return kind, stated.value * (1e-3 if unit.startswith("ms") or "unit" not in stated.row else 1.0)
    if kind == "static":
        return kind, stated.value * (1e-3 if unit.startswith("ms") else 1.0)
    if kind == "throughput-per-device":
        return "throughput", stated.value * max(devices, 1)
    return kind, stated.value


def _in_a_row(layout: dict[str, float], kind: str, devices: int) -> dict[str, float]:
    """Layers split over devices that work one after another, as llama.cpp does."""
    if kind in ("decode-rate", "prefill-rate"):
        return {**layout, "serial": 1.0, "tensor": 1.0, "stages": float(max(devices, 1))}
    return {"serial": 1.0, "stages": layout.get("tensor", float(max(devices, 1))), "tensor": 1.0}


def _divided(layout: dict[str, float], devices: int) -> tuple[int, int | None]:
    """The devices, and the copies of the model among which they are divided; None where there is one."""
    world = layout.get("tensor", 1.0) * layout.get("data", 1.0) * layout.get("pipeline", 1.0)
    if not devices or world >= devices or "serial" in layout or "workers" in layout:
        return devices or int(world), None
    if devices == world * layout.get("expert", 1.0):  # the converter's product, see serving_layout
        return int(world), None
    return devices, devices // int(world)


def _memory_part(stated: Line, model: str, precision: str) -> Case:
    part = stated.row["metric"].removeprefix("vllm_mem_")
    if part in ("non_torch", "cuda_graph"):
        raise No("memory of the driver and of captured graphs is measured, not predicted")
    balances = re.search(r"only balances at util (\d\.\d+)", stated.row.get("note", ""))  # against what it prints
    share = float(balances.group(1)) if balances else stated.number("batch_or_concurrency") or 0.9
    return stated.case(
        "memory", stated.value * 2**30, model, 1, precision, "vllm",
        layout={"tensor": float(count(stated.row.get("parallelism", "1")))}, prompt=stated.number("input_len") or 0.0,
        more={"part": part, "share": share},
    )  # fmt: skip
