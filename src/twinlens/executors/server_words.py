"""The names that one runtime's servers use for their settings and metrics, wherever such a server was started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


def histogram(name: str, column: str) -> dict[str, str]:
    """Sum and count of a histogram in seconds, as columns of `ServerSample`."""
    return {f"{name}_sum": f"{column}_sum_s", f"{name}_count": f"{column}_count"}


SHARED = {
    "prompt_tokens_total": "prompt_tokens",
    "generation_tokens_total": "generation_tokens",
    **histogram("time_to_first_token_seconds", "ttft"),
    **histogram("e2e_request_latency_seconds", "e2e"),
    **histogram("inter_token_latency_seconds", "itl"),
}
"""Names of metrics that vLLM, SGLang and TensorRT-LLM have in common."""
PHASES = {
    **histogram("request_queue_time_seconds", "queue"),
    **histogram("request_prefill_time_seconds", "prefill"),
    **histogram("request_decode_time_seconds", "decode"),
    "request_success_total": "finished",
    "num_requests_running": "running",
    "num_requests_waiting": "waiting",
    "spec_decode_num_draft_tokens_total": "draft_tokens",
    "spec_decode_num_accepted_tokens_total": "accepted_tokens",
}
"""Names that vLLM and TensorRT-LLM have in common."""


def _no_word(config: Mapping[str, Any]) -> Any:
    return None


@dataclass(frozen=True, slots=True)
class ServerWords:
    """`prefix`: what the metrics begin with ("vllm" of "vllm:num_requests_running"). `metrics`: their names without it,
    to columns of `ServerSample`, several parted by spaces. Two names of one column are one figure under its old and
    its new name, unless a plus says that they are parts of it.

    `settings`: fact to the names that the runtime's pages have for it, the first with a value counts. `under`: the
    key of the page below which the settings stand. `speculation`: what such settings say of speculative decoding.
    """

    prefix: str = ""
    metrics: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    under: str = ""
    speculation: Callable[[Mapping[str, Any]], Any] = _no_word


# Runtimes whose servers are asked here and never started.
_LLAMA_CPP = ServerWords(
    prefix="llamacpp",
    metrics={
        "requests_processing": "running",
        "requests_deferred": "waiting",
        "kv_cache_usage_ratio": "kv_use",
        "prompt_tokens_total": "prompt_tokens +prefix_queries",  # those it computed
        "prompt_tokens_cached_total": "prefix_hits +prefix_queries",  # and those it did not have to
        "tokens_predicted_total": "generation_tokens",
        "n_decode_total": "iterations",
        "spec_decode_num_draft_tokens_total": "draft_tokens",
        "spec_decode_num_accepted_tokens_total": "accepted_tokens",
    },
)
_TEXT_GENERATION_INFERENCE = ServerWords(
    prefix="tgi",
    metrics={
        "batch_current_size": "running",
        "queue_size": "waiting",
        "request_success": "finished",
        "request_success_total": "finished",
        "request_generated_tokens_sum": "generation_tokens",
        "request_input_length_sum": "prompt_tokens",
        "batch_inference_count": "iterations",
        "batch_inference_count_total": "iterations",
        **histogram("request_queue_duration", "queue"),
        **histogram("request_duration", "e2e"),
    },
)
NEVER_LAUNCHED = (_LLAMA_CPP, _TEXT_GENERATION_INFERENCE)
