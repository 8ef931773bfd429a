"""Runtimes whose servers are asked here and never started: the names of their metrics."""

from __future__ import annotations

from twinlens.executors.server_words import ServerWords, histogram

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
