"""TensorRT-LLM through `trtllm-serve`, PyTorch back end. Recorded output only: it needs an NVIDIA GPU. Its flags are
those of 1.2; prefix cache and KV format have none there, only a YAML file (`args = ["--config", FILE]`)."""

from __future__ import annotations

import re
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.executors.launch.entry import launched
from twinlens.executors.launch.recipe import Command, LaunchConfig, Recipe, ServerOutput, offline_environment
from twinlens.executors.launch.switches import Switch, flag, switch
from twinlens.executors.server_words import PHASES, SHARED, ServerWords
from twinlens.executors.settings_text import first_known, graphs, pairs, tensor_format, version_on
from twinlens.record.executor.record import Fact, declared

_LIMITS = {
    "serving.max_sequences": re.compile(r"max_seq_len=.*max_batch_size=(\d+)"),
    "serving.max_batched_tokens": re.compile(r"max_seq_len=.*max_num_tokens=(\d+)"),
    "serving.context_tokens": re.compile(r"max_seq_len=(\d+)"),
    "serving.kv_block_tokens": re.compile(r"Number of tokens per block: (\d+)"),
}
_VERSION = re.compile(r"TensorRT[- ]LLM version: (\S+)")


def _command(order: LaunchConfig) -> Command:
    if order.precision not in ("bf16", "fp16"):
        raise BadInput(
            f"tensorrt-llm computes in the format of the model folder; ask for bf16 or fp16, not {order.precision}",
            code="TL203",
        )
    argv = [
        str(Path(order.python).with_name("trtllm-serve")),
        *("serve", order.folder, "--backend", "pytorch"),
        *("--host", order.listen, "--port", str(order.port)),
        *("--max_seq_len", str(order.context_tokens)),
        *order.args,
    ]
    return Command(tuple(argv), offline_environment(order, TLLM_DISABLE_NVTX="1"))


def _facts(seen: ServerOutput) -> dict[str, Fact]:
    facts: dict[str, Fact] = {"serving.batching": declared("continuous (in flight)", "TensorRT-LLM's executor")}
    config = pairs(seen.log, "PyTorchConfig(")
    facts |= first_known(config, {"serving.attention": ("attn_backend",)}, "PyTorchConfig in the log")
    captured = {"True": False, "False": True}.get(str(config.get("use_cuda_graph")))
    facts |= graphs(captured, "PyTorchConfig in the log")
    if cached := tensor_format(config.get("kv_cache_dtype")):
        facts["precision.kv"] = declared(cached, "PyTorchConfig in the log")
    facts |= first_known(
        pairs(seen.log, "AttentionRuntimeFeatures("),
        {"serving.chunked_prefill": ("chunked_prefill",), "serving.prefix_cache": ("cache_reuse",)},
        "AttentionRuntimeFeatures in the log",
    )
    for field, pattern in _LIMITS.items():
        if counts := pattern.findall(seen.log):  # the last: memory is measured with a small cache first
            facts[field] = declared(int(counts[-1]), "the log")
    if match := _VERSION.search(seen.log):
        facts["software.runtime.version"] = declared(match[1], "the log")
    facts |= version_on(seen.pages.get("/version"), "/version")
    return facts


SWITCHES = (
    switch("chunked_prefill", lambda value: ("--enable_chunked_prefill",) if value else ()),
    switch("max_sequences", "--max_batch_size"),
    switch("max_batched_tokens", "--max_num_tokens"),
    switch("max_context", "--max_seq_len"),
    Switch(
        "memory_share", float, flag("--kv_cache_free_gpu_memory_fraction"), "serving.memory_share",
        "Share of the memory that weights leave free which the KV cache takes.",
    ),
    switch("tensor_parallel", "--tp_size"),
)  # fmt: skip
WORDS = ServerWords(
    prefix="trtllm",
    metrics=SHARED
    | PHASES
    | {
        "kv_cache_utilization": "kv_use",
        "max_num_active_requests": "slots",
        "kv_cache_reused_blocks_total": "prefix_hits +prefix_queries",
        "kv_cache_missed_blocks_total": "+prefix_queries",
        "spec_decode_drafted_tokens_total": "draft_tokens",
        "spec_decode_accepted_tokens_total": "accepted_tokens",
    },
)
RECIPE = Recipe(
    kind="tensorrt-llm",
    name="tensorrt-llm",
    packages=("tensorrt-llm",),
    casts=("bf16", "fp16"),
    install="use NVIDIA's container or index for tensorrt-llm, and name its interpreter in executor.options.python",
    ready="/health",
    pages=("/version", "/v1/models"),
    command=_command,
    facts=_facts,
    start_timeout_s=1800.0,
    called="its own",
    metrics="/prometheus/metrics",
    tried=False,
    also=("tensorrt",),
    words=WORDS,
    switches=SWITCHES,
    gpu_flags=("--tp_size", "--pp_size"),
)
EXECUTOR = launched(RECIPE)
