"""SGLang. Recorded output only: its wheels need a GPU. Flags, pages and packages are those of the wheel 0.5.23."""

from __future__ import annotations

import re
from typing import Any

from twinlens.executors.launch.entry import launched
from twinlens.executors.launch.recipe import (
    Command,
    LaunchConfig,
    Recipe,
    ServerOutput,
    Switch,
    flag,
    gpu_environment,
    is_degree,
    online_words,
    thread_environment,
    torch_name,
)
from twinlens.executors.server_words import SHARED, ServerWords, histogram
from twinlens.executors.settings_text import first_known, flat, formats, pairs, quantisation
from twinlens.record.executor.record import Fact, declared

_READY = re.compile(r"max_total_num_tokens=.*?max_running_requests=(\d+)")
_PAGES = ("/server_info", "/get_server_info")  # the first since 0.5.4 or so, the second before
_NAMES = {
    "serving.max_sequences": ("max_running_requests",),
    "serving.max_batched_tokens": ("max_prefill_tokens",),
    "serving.chunked_prefill": ("chunked_prefill_size",),
    "serving.kv_block_tokens": ("page_size",),
    "serving.attention": ("attention_backend",),
    "serving.speculative": ("speculative_algorithm",),
    "serving.context_tokens": ("context_length",),
}

_DEGREES = {"tensor_parallel": "tp_size", "pipeline_parallel": "pp_size", "data_parallel": "dp_size"}

_ONLINE = {"fp8": "fp8"}


def _command(order: LaunchConfig) -> Command:
    argv = [
        *(order.python, "-m", "sglang.launch_server"),
        *("--model-path", order.folder, "--served-model-name", order.name),
        *("--host", order.listen, "--port", str(order.port)),
        *("--dtype", torch_name(order, "sglang", _ONLINE), "--context-length", str(order.context_tokens)),
        "--enable-metrics",
        *(("--disable-cuda-graph",) if order.graph == "eager" else ()),
        *(("--device", "cpu") if order.device.kind == "cpu" else ()),
        *online_words(order, _ONLINE),
        *order.args,
    ]
    environment = {
        "HF_HUB_OFFLINE": "1",
        **thread_environment(order.threads),
        **gpu_environment(order.device),
    }
    return Command(tuple(argv), environment)


def _facts(seen: ServerOutput) -> dict[str, Fact]:
    path = next((path for path in _PAGES if isinstance(seen.pages.get(path), dict)), None)
    config: dict[str, Any] = flat(seen.pages[path]) if path else dict(pairs(seen.log, "server_args=ServerArgs("))
    source = path or "server_args in the log"
    facts = first_known(config, _NAMES, source)
    if ready := _READY.search(seen.log):  # what was asked for stands in its pages, what came of it only here
        facts["serving.max_sequences"] = declared(int(ready[1]), "the log, when it was ready")
    facts |= formats(config.get("dtype"), config.get("kv_cache_dtype"), source)
    facts |= quantisation(config, source, none_says=False)  # it finds out by itself what a folder is quantised to
    version = config.get("version")
    if isinstance(version, str) and version:
        facts["software.runtime.version"] = declared(version, source)
    if (is_off := _switch(config.get("disable_radix_cache"))) is not None:
        facts["serving.prefix_cache"] = declared(not is_off, source)
    if (is_off := _switch(config.get("disable_cuda_graph"))) is not None:
        facts["serving.graphs"] = declared("none (eager)" if is_off else "captured", source)
    degrees = {name: config.get(key) for name, key in _DEGREES.items()}
    if None not in degrees.values():
        facts["serving.parallel"] = declared({name: int(str(size)) for name, size in degrees.items()}, source)
    facts["serving.batching"] = declared("continuous", "SGLang batches at every iteration")
    return facts


def _switch(value: Any) -> bool | None:
    return {"True": True, "False": False}.get(str(value))


def _ngram(tokens: int) -> tuple[str, ...]:
    return ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", str(tokens)) if tokens else ()


SWITCHES = (
    Switch(
        "prefix_caching", bool, lambda value: () if value else ("--disable-radix-cache",), "serving.prefix_cache",
        "Reuse the KV cache of a prompt's beginning that an earlier request had.",
    ),
    Switch(
        "chunked_prefill_tokens", int, lambda value: ("--chunked-prefill-size", str(value or -1)),
        "serving.chunked_prefill", "Tokens in each part of a long prompt; 0 does not split prompts.",
        ran=lambda value: value or -1, least=0,
    ),
    Switch(
        "ngram_tokens", int, _ngram, "serving.speculative",
        "Tokens that speculative decoding drafts in each step from n-grams of the prompt; 0 for none.",
        ran=lambda value: "NGRAM" if value else None, least=0,
    ),
    Switch(
        "kv_format", ("bf16", "fp8-e4m3", "fp8-e5m2"),
        lambda value: ("--kv-cache-dtype", value.replace("-", "_")), "precision.kv",
        "The number format of the KV cache, apart from that of the precision.",
    ),
    Switch(
        "max_sequences", int, flag("--max-running-requests"), "serving.max_sequences",
        "Requests that the server runs at once at most.",
    ),
    Switch(
        "max_batched_tokens", int, flag("--max-prefill-tokens"), "serving.max_batched_tokens",
        "Tokens that one step of the server computes at most.",
    ),
    Switch(
        "max_context", int, flag("--context-length"), "serving.context_tokens",
        "Tokens that a request's prompt and answer may have together at most.",
    ),
    Switch(
        "kv_block_tokens", int, flag("--page-size"), "serving.kv_block_tokens",
        "Tokens in one block of the KV cache, which is what prefix caching can reuse.",
    ),
    Switch(
        "tensor_parallel", int, flag("--tp-size"), "serving.parallel",
        "GPUs that share each layer of one server.", is_met=is_degree("tensor_parallel"),
    ),
)  # fmt: skip
WORDS = ServerWords(
    prefix="sglang",
    metrics=SHARED
    | {
        "prompt_tokens_total": "prompt_tokens prefix_queries",
        "cached_tokens_total": "prefix_hits",
        "num_running_reqs": "running",
        "num_queue_reqs": "waiting",
        "token_usage": "kv_use",
        "max_running_requests": "slots",
        "num_requests_total": "finished",
        "num_retracted_requests_total": "preemptions",
        **histogram("queue_time_seconds", "queue"),
    },
    settings=_NAMES,
)
RECIPE = Recipe(
    kind="sglang",
    graphs=("auto", "eager"),
    name="sglang",
    packages=("sglang",),
    install="pip install sglang into a Python of its own, and name it in executor.options.python",
    ready="/health",
    pages=_PAGES,
    command=_command,
    facts=_facts,
    start_timeout_s=1200.0,
    tried=False,
    also=("sglang-kernel", "sgl-kernel"),  # its name since 0.5.12 or so, and before
    words=WORDS,
    switches=SWITCHES,
    online=_ONLINE,
    gpu_flags=("--tp-size", "--tensor-parallel-size", "--tp", "--pp-size", "--pipeline-parallel-size"),
    loaded=r"Load weight end\. elapsed=([\d.]+) s",
)
EXECUTOR = launched(RECIPE)
