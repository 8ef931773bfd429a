"""Rows of MLPerf Inference as questions: throughput offline, and within the latency limit of a scenario."""

from __future__ import annotations

from benchmarks.prediction.case import EVERYTHING, Case, Line, No, count

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


def mlperf_case(stated: Line, model: str, precision: str, engine: str) -> Case:
    """The question of one row. Raises No for other units, scenarios and models."""
    scenario = stated.cell("batch_or_concurrency")
    if stated.kind != "throughput" or "token" not in stated.cell("unit"):
        raise No("only tokens per second are predicted for language models of MLPerf")
    if model not in MLPERF_LENGTHS or scenario not in ("offline", "server", "interactive"):
        raise No(f"scenario {scenario!r} of {model} is not known")
    prompt, answer = MLPERF_LENGTHS[model]
    limit = MLPERF_LIMITS.get((model, scenario))
    if scenario != "offline" and limit is None:
        raise No("the latency limit of this scenario is not known")
    devices = count(stated.row.get("n_gpus", ""))
    return stated.case(
        "throughput", stated.value, model, devices, precision, engine, batch=EVERYTHING, prompt=prompt,
        answer=stated.number("output_len") or answer, more={"limit": limit, "scenario": scenario},
    )  # fmt: skip
