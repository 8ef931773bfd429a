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
    offline_environment,
    online_words,
    torch_name,
)
from twinlens.executors.launch.switches import Switch, kv_switch, switch
from twinlens.executors.server_words import SHARED, ServerWords, histogram
from twinlens.executors.settings_text import (
    degrees,
    first_known,
    flat,
    formats,
    graphs,
    pairs,
    quantisation,
    version_on,
)
from twinlens.record.executor.record import Fact, declared

_READY = re.compile(r"max_total_num_tokens=.*?max_running_requests=(\d+)")
_PAGES = ("/server_info", "/get_server_info")  # the first since 0.5.4 or so, the second before
_NAMES = {
    "serving.max_sequences": ("max_running_requests",),
    "serving.max_batched_tokens": ("max_prefill_tokens",),
    "serving.chunked_prefill": ("chunked_prefill_size",),
    "serving.kv_block_tokens": ("page_size",),
    "serving.memory_share": ("mem_fraction_static",),
    "serving.attention": ("attention_backend",),
    "serving.speculative": ("speculative_algorithm",),
    "serving.context_tokens": ("context_length",),
}

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
    return Command(tuple(argv), offline_environment(order))


def _facts(seen: ServerOutput) -> dict[str, Fact]:
    path = next((path for path in _PAGES if isinstance(seen.pages.get(path), dict)), None)
    config: dict[str, Any] = flat(seen.pages[path]) if path else dict(pairs(seen.log, "server_args=ServerArgs("))
    source = path or "server_args in the log"
    facts = first_known(config, _NAMES, source)
    if ready := _READY.search(seen.log):  # what was asked for stands in its pages, what came of it only here
        facts["serving.max_sequences"] = declared(int(ready[1]), "the log, when it was ready")
    facts |= formats(config.get("dtype"), config.get("kv_cache_dtype"), source)
    facts |= quantisation(config, source, none_says=False)  # it finds out by itself what a folder is quantised to
    facts |= version_on(config, source)
    if (is_off := str(config.get("disable_radix_cache"))) in ("True", "False"):
        facts["serving.prefix_cache"] = declared(is_off == "False", source)
    facts |= graphs(config.get("disable_cuda_graph"), source)
    facts |= degrees(config, {"tensor": "tp_size", "pipeline": "pp_size", "data": "dp_size"}, source)
    facts["serving.batching"] = declared("continuous", "SGLang batches at every iteration")
    return facts


def _ngram(tokens: int) -> tuple[str, ...]:
    return ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", str(tokens)) if tokens else ()


SWITCHES = (
    switch("prefix_caching", lambda value: () if value else ("--disable-radix-cache",)),
    Switch(
        "chunked_prefill_tokens", int, lambda value: ("--chunked-prefill-size", str(value or -1)),
        "serving.chunked_prefill", "Tokens in each part of a long prompt; 0 does not split prompts.",
        ran=lambda value: value or -1, least=0,
    ),
    switch("ngram_tokens", _ngram, ran=lambda value: "NGRAM" if value else None, least=0),
    kv_switch({name: name.replace("-", "_") for name in ("bf16", "fp8-e4m3", "fp8-e5m2")}, "--kv-cache-dtype"),
    switch("max_sequences", "--max-running-requests"),
    switch("max_batched_tokens", "--max-prefill-tokens"),
    switch("max_context", "--context-length"),
    switch("memory_share", "--mem-fraction-static"),
    switch("kv_block_tokens", "--page-size"),
    switch("tensor_parallel", "--tp-size"),
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
