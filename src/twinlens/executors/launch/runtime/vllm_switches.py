"""The switches of vLLM: each with its flag, and with what its pages say where it is on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from twinlens.executors.launch.switch import Switch, flag, is_degree, on_off

_KV_WORDS = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8-e4m3": "fp8_e4m3",
    "fp8-e5m2": "fp8_e5m2",
    "int8": "int8_per_token_head",
}
_DRAFTS = {"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 1}


def _draft(tokens: int) -> tuple[str, ...]:
    return ("--speculative-config", json.dumps(_DRAFTS | {"num_speculative_tokens": tokens})) if tokens else ()


def _drafts(tokens: int, observed: Any) -> bool:
    """Whether what vLLM says of speculation is n-gram drafts of so many tokens; 0: none."""
    if not tokens:
        return bool(observed == "none")
    said = observed if isinstance(observed, Mapping) else {}
    return said.get("method") == "ngram" and said.get("num_speculative_tokens") == tokens


SWITCHES = (
    Switch(
        "prefix_caching", bool, on_off("--enable-prefix-caching", "--no-enable-prefix-caching"),
        "serving.prefix_cache", "Reuse the KV cache of a prompt's beginning that an earlier request had.",
    ),
    Switch(
        "chunked_prefill", bool, on_off("--enable-chunked-prefill", "--no-enable-chunked-prefill"),
        "serving.chunked_prefill", "Split long prompts, so that decoding goes on between their parts.",
    ),
    Switch(
        "ngram_tokens", int, _draft, "serving.speculative",
        "Tokens that speculative decoding drafts in each step from n-grams of the prompt; 0 for none.",
        is_met=_drafts, least=0,
    ),
    Switch(
        "kv_format", tuple(_KV_WORDS), lambda value: ("--kv-cache-dtype", _KV_WORDS[value]), "precision.kv",
        "The number format of the KV cache, apart from that of the precision.",
    ),
    Switch(
        "max_sequences", int, flag("--max-num-seqs"), "serving.max_sequences",
        "Requests that the server runs at once at most.",
    ),
    Switch(
        "max_batched_tokens", int, flag("--max-num-batched-tokens"), "serving.max_batched_tokens",
        "Tokens that one step of the server computes at most.",
    ),
    Switch(
        "max_context", int, flag("--max-model-len"), "serving.context_tokens",
        "Tokens that a request's prompt and answer may have together at most.",
    ),
    Switch(
        "kv_block_tokens", int, flag("--block-size"), "serving.kv_block_tokens",
        "Tokens in one block of the KV cache, which is what prefix caching can reuse.",
    ),
    Switch(
        "tensor_parallel", int, flag("--tensor-parallel-size"), "serving.parallel",
        "GPUs that share each layer of one server.", is_met=is_degree("tensor_parallel"),
    ),
)  # fmt: skip
