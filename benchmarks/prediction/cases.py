"""Rows of public tables as questions to the model: each row becomes a case, or is refused with a reason."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.prediction import names
from benchmarks.prediction.devices import device_of
from twinlens.spec.device import Device

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Case:
    """One measured number and the question that it answers. Times in s, rates in tokens/s, memory in bytes."""

    kind: str
    value: float
    file: str
    model: str
    card: Device
    devices: int
    precision: str
    engine: str
    layout: dict[str, float] = field(default_factory=dict)
    batch: float = 1.0
    prompt: float = 1.0
    answer: float = 1.0
    more: dict[str, object] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that gets no prediction, and why."""

    why: str
    file: str
    metric: str
    line: int = 0


class No(Exception):
    """A reason not to predict a row."""


def read(folder: Path) -> tuple[list[Case], list[Refused]]:
    """All rows of all CSV files of a folder that have the columns of public measurements."""
    cases: list[Case] = []
    refused: list[Refused] = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if not {"model", "hardware", "metric", "value"} <= set(reader.fieldnames or ()):
                continue
            for line, row in enumerate(reader, 2):
                clean = {key: (value or "").strip() for key, value in row.items() if key}
                try:
                    cases.append(_case(clean, path.stem, line))
                except No as no:
                    refused.append(Refused(str(no), path.stem, clean.get("metric", ""), line))
                except (ValueError, KeyError, IndexError, TypeError, ArithmeticError) as wrong:
                    why = f"the row cannot be read: {type(wrong).__name__}"
                    refused.append(Refused(why, path.stem, clean.get("metric", ""), line))
    return cases, refused


def number(text: str) -> float | None:
    """The first number of a cell; None without one."""
    found = re.search(r"-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?", text)
    return float(found.group().replace(",", "")) if found else None


def _case(row: Row, file: str, line: int) -> Case:
    value = number(row["value"])
    if value is None:
        raise No(f"the value {row['value']!r} is no number")
    metric = row["metric"].lower()
    kind = next((kind for pattern, kind in METRICS if re.search(pattern, metric)), None)
    if kind is None:
        raise No(f"no prediction of {metric}")
    if kind.startswith("!"):
        raise No(kind[1:])
    if kind != "memory-part" and value <= 0:
        raise No("the measured value is not above 0")
    card = device_of(row["hardware"])
    if card is None:
        raise No(f"unknown or mixed device {row['hardware']!r}")
    if "argonne" in row.get("source", "") and "A100" in row["hardware"]:
        card = device_of("A100-SXM-40GB") or card  # Polaris, where that table was measured, has 40 GB
    shape = names.shape_of(row["model"])
    if shape is None:
        known = names.model_name(row["model"])
        raise No(
            f"model {row['model']!r} is no decoder of the catalogue" if known is None else f"{known} is no decoder"
        )
    if row.get("workload", "infer").startswith("train"):
        from benchmarks.prediction.training_cases import training_case

        return training_case(row, kind, value, file, card, line)
    return _serving_case(row, kind, value, file, card, line)


METRICS: tuple[tuple[str, str], ...] = (
    (r"^(ttft|time_to_first_token)(_mean|_avg|_median|_p50)?(_ms|_s)?$", "ttft"),
    (r"^(tpot|itl|time_per_output_token|inter_token_latency)(_mean|_avg|_median|_p50)?(_ms|_s)?$", "tpot"),
    (r"^e2e_batch_latency", "static"),
    (r"^(e2e|e2e_latency|end_to_end)(_latency)?(_mean|_avg|_median|_p50)?(_ms|_s)?$", "e2e"),
    (r"_p9\d", "!tails need the distribution of requests, which the row does not give"),
    (r"^decode_tokens_per_s", "decode-rate"),
    (r"^prefill_tokens_per_s", "prefill-rate"),
    (r"^output_throughput_per_gpu", "throughput-per-device"),
    (r"^output_throughput", "throughput"),
    (r"^throughput_per_gpu", "train-rate"),
    (r"^throughput$", "throughput"),
    (r"^train_step_time", "train-step"),
    (r"^model_tflops|^mfu|^hfu", "!follows from tokens/s by a convention: the row of tokens/s is predicted"),
    (r"^(params_and_optimizer|activation)_memory", "memory"),
    (r"^max_memory", "memory-peak"),
    (r"^vllm_mem_", "memory-part"),
    (r"^time_to_train|^samples_to_target", "!depends on convergence, which no cost model knows"),
    (r"^logged_throughput", "train-samples"),
    (r"power|energy|watt", "!power is not predicted"),
    (r"all_reduce", "!a collective alone is no workload"),
    (r"^fits$", "!a witness of fitting is for plan fit"),
)

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


def _int(text: str, default: int = 1) -> int:
    found = number(text)
    return default if found is None else max(1, int(found))


def _serving_case(row: Row, kind: str, value: float, file: str, card: Device, line: int) -> Case:
    engine, more = engine_of(row), {}
    devices = int(number(row.get("n_gpus", "")) or 0)
    precision = names.precision_name(row.get("precision", ""))
    if precision is None:
        raise No(f"unknown precision {row['precision']!r}")
    if precision == "mxfp8":
        precision = "fp8"
    model = names.model_name(row["model"]) or ""
    if "nvfp4" in row["model"].lower():
        precision = "nvfp4"
    if model.startswith("gpt-oss"):
        precision = "mxfp4-experts"
    if kind == "memory-part":
        return _memory_part(row, value, file, card, line, model, precision)
    mlperf = "mlperf" in row.get("source", "").lower()
    if mlperf:
        return _mlperf(row, kind, value, file, card, line, model, precision, engine, devices)
    layout = serving_layout(row.get("parallelism", ""), row.get("provenance", ""), devices)
    prompt, answer = number(row.get("input_len", "")), number(row.get("output_len", ""))
    batch = number(row.get("batch_or_concurrency", ""))
    offline = "offline" in row.get("batch_or_concurrency", "").lower()
    if kind in ("ttft", "tpot", "e2e"):
        if batch is None:
            raise No("the concurrency is not stated")
        if re.search(r"qps|req/s|rps|rate", row.get("batch_or_concurrency", "").lower()):
            more["rate"] = batch
        if prompt is None or answer is None:
            raise No("lengths of prompt and answer are not stated")
        value = value * (1e-3 if row.get("unit", "ms").lower().startswith("ms") else 1.0)
    elif kind == "static":
        if batch is None or prompt is None or answer is None:
            raise No("batch or lengths are not stated")
        if row.get("unit", "s").lower().startswith("ms"):
            value /= 1e3
    elif kind == "decode-rate":
        prompt, batch = 0.0, 1.0
        if answer is None:
            raise No("the number of tokens is not stated")
        layout = {**layout, "serial": 1.0, "tensor": 1.0, "stages": float(max(devices, 1))}
    elif kind == "prefill-rate":
        answer, batch = 1.0, 1.0
        if prompt is None:
            raise No("the number of tokens is not stated")
        layout = {**layout, "serial": 1.0, "tensor": 1.0, "stages": float(max(devices, 1))}
    elif kind.startswith("throughput"):
        if prompt is None or answer is None:
            raise No("lengths of prompt and answer are not stated")
        if not offline and batch is None:
            raise No("the concurrency is not stated")
        if kind == "throughput-per-device":
            kind, value = "throughput", value * max(devices, 1)
        batch = batch if not offline and batch else 4096.0
    else:
        raise No(f"no prediction of {kind} for serving")
    if engine == "llama.cpp" and "serial" not in layout:
        layout = {"serial": 1.0, "stages": layout.get("tensor", float(max(devices, 1))), "tensor": 1.0}
    world = layout.get("tensor", 1.0) * layout.get("data", 1.0) * layout.get("pipeline", 1.0)
    heads = names.shape_of(row["model"])
    if heads is not None and layout.get("tensor", 1.0) > heads.heads:
        raise No(f"tensor parallelism of {layout['tensor']:g} over {heads.heads} heads is no legal layout")
    if devices and world < devices and "serial" not in layout and "workers" not in layout:
        if devices == world * layout.get("expert", 1.0):  # the converter's product, see serving_layout
            devices = int(world)
        else:
            more["copies"] = devices // int(world)
    more["release"] = release_of(row, engine)
    if re.search(r"argonne|\b2024\b", row.get("source", "") + row.get("note", "").split("source_file")[0]):
        more["era"] = "2024"
    return Case(
        kind,
        value,
        file,
        model,
        card,
        devices or int(world),
        precision,
        engine,
        layout,
        batch or 1.0,
        prompt or 0.0,
        answer or 1.0,
        more,
        line,
    )


def serving_layout(text: str, provenance: str = "", devices: int = 1) -> dict[str, float]:
    """The layout that a row states, as degrees. Raises No for what the model does not describe."""
    low = text.lower()
    if "disagg" in low or re.search(r"\bp:\S*x\(", low):
        return _disaggregated(low)
    if "layer-split" in low:
        return {"serial": 1.0, "tensor": 1.0, "stages": float(_int(low, devices or 1))}

    def degree(name: str) -> int | None:
        found = re.search(rf"(?<![a-z_]){name}[ =:]*(\d+)", low)
        return int(found.group(1)) if found else None

    dep, tep = degree("dep"), degree("tep")
    if dep:
        return {"tensor": 1.0, "data": float(dep), "expert": float(dep), "pipeline": float(degree("pp") or 1)}
    tp, dp, pp, ep, moe_tp = (degree(k) for k in ("tp", "dp", "pp", "ep", "moe_tp"))
    if tep:
        tp, ep = tep, tep
    if 0 in (tp, dp, pp):
        raise No("the layout states 0 devices")
    if tp is None and dp is None and pp is None:
        if devices <= 1:
            return {"tensor": 1.0}
        raise No("the layout over several devices is not stated")
    tp, dp, pp, ep, moe_tp = tp or 1, dp or 1, pp or 1, ep or 1, moe_tp or 1
    # A converter multiplied tp by ep where experts are split over the same devices: the id has the launched degrees.
    if moe_tp > 1 and ep > 1 and tp * dp == moe_tp * ep:
        launched = re.search(r"_tp(\d+)(?:_\d+)?_ep_?(\d+)", provenance)
        if launched is None or int(launched.group(1)) == moe_tp:
            tp, dp = (1, moe_tp) if dp > 1 else (moe_tp, 1)
            ep = min(ep, moe_tp)
    return {"tensor": float(tp), "data": float(dp), "pipeline": float(pp), "expert": float(ep)}


def _disaggregated(low: str) -> dict[str, float]:
    found = re.search(r"p: *(\S+?) *x *\((.*?)\).*?d: *(\S+?) *x *\((.*?)\)", low)
    if found is None or not found.group(1).isdigit() or not found.group(3).isdigit():
        raise No("prefill and decode on separate workers, whose numbers are not stated")
    first, rest = serving_layout(found.group(2)), serving_layout(found.group(4))
    workers = {"first_workers": float(found.group(1)), "workers": float(found.group(3))}
    return {**rest, **{f"first_{name}": value for name, value in first.items()}, **workers}


MLPERF_LENGTHS = {
    "llama-2-70b": (294.0, 294.0),
    "llama-3.1-405b": (9400.0, 650.0),
    "mixtral-8x7b": (386.0, 145.0),
    "llama-3.1-8b": (780.0, 73.0),
    "deepseek-v3": (1160.0, 3880.0),
}
"""Mean tokens of prompts and answers in the data sets of MLPerf Inference v5.1."""
MLPERF_LIMITS = {
    ("llama-2-70b", "server"): 0.200,
    ("llama-2-70b", "interactive"): 0.040,
    ("llama-3.1-405b", "server"): 0.175,
    ("llama-3.1-405b", "interactive"): 0.080,
    ("mixtral-8x7b", "server"): 0.200,
    ("llama-3.1-8b", "server"): 0.100,
    ("llama-3.1-8b", "interactive"): 0.030,
    ("deepseek-v3", "server"): 0.080,
}
"""Limits of time per output token at p99, in seconds: MLPerf Inference policies, latency constraints."""


def _mlperf(
    row: Row,
    kind: str,
    value: float,
    file: str,
    card: Device,
    line: int,
    model: str,
    precision: str,
    engine: str,
    devices: int,
) -> Case:
    scenario = row.get("batch_or_concurrency", "").lower()
    if kind != "throughput" or "token" not in row.get("unit", "").lower():
        raise No("only tokens per second are predicted for language models of MLPerf")
    if model not in MLPERF_LENGTHS or scenario not in ("offline", "server", "interactive"):
        raise No(f"scenario {scenario!r} of {model} is not known")
    prompt, answer = MLPERF_LENGTHS[model]
    stated = number(row.get("output_len", ""))
    limit = MLPERF_LIMITS.get((model, scenario))
    if scenario != "offline" and limit is None:
        raise No("the latency limit of this scenario is not known")
    return Case(
        "throughput",
        value,
        file,
        model,
        card,
        max(devices, 1),
        precision,
        engine,
        {},
        4096.0,
        prompt,
        stated or answer,
        {"limit": limit, "scenario": scenario},
        line,
    )


def _memory_part(row: Row, value: float, file: str, card: Device, line: int, model: str, precision: str) -> Case:
    part = row["metric"].removeprefix("vllm_mem_")
    if part in ("non_torch", "cuda_graph"):
        raise No("memory of the driver and of captured graphs is measured, not predicted")
    used = number(row.get("batch_or_concurrency", ""))
    return Case(
        "memory",
        value * 2**30,
        file,
        model,
        card,
        1,
        precision,
        "vllm",
        {"tensor": float(_int(row.get("parallelism", "1")))},
        1.0,
        number(row.get("input_len", "")) or 0.0,
        1.0,
        {"part": part, "share": used or 0.9},
        line,
    )
