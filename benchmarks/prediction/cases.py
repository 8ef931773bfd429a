"""Rows of public tables as questions to the model: each row becomes a case, or is refused with a reason."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from benchmarks.prediction import names
from benchmarks.prediction.case import Case, Line, No, Refused, Row, number
from benchmarks.prediction.devices import device_of
from benchmarks.prediction.serving_cases import serving_case
from benchmarks.prediction.training_cases import training_case
from twinlens.spec.device import Device


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


def _case(row: Row, file: str, line: int) -> Case:
    value = number(row["value"])
    if value is None:
        raise No(f"the value {row['value']!r} is no number")
    kind = _kind(row["metric"].lower())
    if kind != "memory-part" and value <= 0:
        raise No("the measured value is not above 0")
    stated = Line(row, file, line, kind, value, _card(row))
    if names.shape_of(row["model"]) is None:
        known = names.model_name(row["model"])
        raise No(
            f"model {row['model']!r} is no decoder of the catalogue" if known is None else f"{known} is no decoder"
        )
    return (training_case if row.get("workload", "infer").startswith("train") else serving_case)(stated)


def _kind(metric: str) -> str:
    kind = next((kind for pattern, kind in METRICS if re.search(pattern, metric)), None)
    if kind is None:
        raise No(f"no prediction of {metric}")
    if kind.startswith("!"):
        raise No(kind[1:])
    return kind


def _card(row: Row) -> Device:
    card = device_of(row["hardware"])
    if card is None:
        raise No(f"unknown or mixed device {row['hardware']!r}")
    if "argonne" in row.get("source", "") and "A100" in row["hardware"]:
        return device_of("A100-SXM-40GB") or card  # Polaris, where that table was measured, has 40 GB
    return card


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
"""What a metric is predicted as, or after "!" why it is not; the first pattern that is found decides."""
