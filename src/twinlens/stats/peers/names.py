"""The ids under which other tools' numbers are given (`variants`): tool, its own name for it, and its unit."""

from __future__ import annotations

from twinlens.units import REQUESTS_PER_S, SECONDS, TOKENS_PER_S

MILLISECONDS = "ms"  # the others' unit, in their names only: ours are seconds
TOOLS = {
    "vllm": "vLLM",
    "guidellm": "GuideLLM",
    "aiperf": "AIPerf",
    "mlperf": "MLPerf",
    "genai_bench": "genai-bench",
    "inference_perf": "inference-perf",
}
_RATES = {
    "vllm": {
        "request_throughput": REQUESTS_PER_S,
        "output_throughput": TOKENS_PER_S,
        "total_token_throughput": TOKENS_PER_S,
        "request_goodput": REQUESTS_PER_S,
    },
    "guidellm": {"requests_per_second": REQUESTS_PER_S},
    "aiperf": {
        "output_token_throughput_per_user_avg": TOKENS_PER_S,
        "output_token_throughput": TOKENS_PER_S,
        "request_throughput": REQUESTS_PER_S,
    },
    "genai_bench": {"output_inference_speed_mean": TOKENS_PER_S},
}
_TIMES = {
    "vllm": [f"{q}_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el") for q in ("mean", "median", "p99")],
    "guidellm": [
        f"{name}_{q}"
        for name in ("time_to_first_token_ms", "time_per_output_token_ms", "inter_token_latency_ms")
        for q in ("mean", "p50", "p99")
    ],
    "aiperf": [
        f"{name}_{q}"
        for name in ("time_to_first_token", "inter_token_latency", "inter_chunk_latency", "request_latency")
        for q in ("avg", "p99")
    ]
    + [f"adj_{name}_{q}" for name in ("time_to_first_token", "request_latency") for q in ("p50", "p99")],
    "mlperf": ["ttft_p99_ms", "tpot_p99_ms", "latency_p99_ms", "early_stopping_latency_p99_ms"],
}
_SECONDS = {
    "guidellm": ["request_latency_mean"],
    "genai_bench": [f"{name}_{q}" for name in ("ttft", "tpot", "e2e_latency") for q in ("mean", "p99")],
    "inference_perf": [
        f"{name}_{q}"
        for name in (
            "time_to_first_token",
            "time_per_output_token",
            "normalized_time_per_output_token",
            "inter_token_latency",
            "request_latency",
        )
        for q in ("mean", "p99")
    ],
}


def peer_names() -> dict[str, tuple[str, str]]:
    """Every id, `tool.its_name`, with a label and a unit."""
    names: dict[str, tuple[str, str]] = {}
    for tool, label in TOOLS.items():
        units = dict.fromkeys(_TIMES.get(tool, []), MILLISECONDS)
        units |= dict.fromkeys(_SECONDS.get(tool, []), SECONDS) | _RATES.get(tool, {})
        names |= {f"{tool}.{name}": (f"{label} {name}", unit) for name, unit in units.items()}
    return names
