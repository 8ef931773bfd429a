"""The server of llama-cpp-python: one sequence at a time, of a GGUF file."""

from __future__ import annotations

import re

from twinlens.executors.launch.entry import launched
from twinlens.executors.launch.recipe import (
    Command,
    LaunchConfig,
    Recipe,
    ServerOutput,
    gpu_environment,
    thread_environment,
)
from twinlens.executors.launch.switches import Switch, switch
from twinlens.record.executor.record import Fact, declared

_FILE_TYPE = re.compile(r"(?:print_info|llm_load_print_meta): (?:file type|model ftype)\s*= (.+)")
# --type_k and --type_v take the numbers of ggml's types.
_CACHE_TYPES = {"fp32": "0", "fp16": "1", "bf16": "30"}
SWITCHES = (
    Switch(
        "kv_format", tuple(_CACHE_TYPES),
        lambda word: ("--type_k", _CACHE_TYPES[word], "--type_v", _CACHE_TYPES[word]), "precision.kv",
        "The number format of the KV cache, apart from that of the file.",
    ),
    Switch(
        "flash_attention", ("on", "off"), lambda word: ("--flash_attn", "true" if word == "on" else "false"),
        "serving.attention", "Flash attention, which llama_cpp.server itself leaves off and llama.cpp decides on.",
        ran=lambda word: f"flash attention {'enabled' if word == 'on' else 'disabled'}",
    ),
    # It splits a prompt into batches, and llama.cpp those into steps of at most n_ubatch, which is never above n_batch.
    switch("max_batched_tokens", lambda tokens: ("--n_batch", str(tokens), "--n_ubatch", str(tokens))),
)  # fmt: skip
_FLASH = re.compile(r"flash_attn\s*= (\w+)")
_STEP = re.compile(r"llama_context: n_ubatch\s*= (\d+)")
_CACHE = re.compile(r"K \((\w+)\):.*?V \((\w+)\):")
# The tool's own words for a file's type, and ours for what its weights are stored in. "(guessed)" may follow them.
_FORMATS = {
    **{"f32": "fp32", "all f32": "fp32", "f16": "fp16", "bf16": "bf16", "q8_0": "int8"},
    **dict.fromkeys(("q4_0", "q4_1", "q4_k - small", "q4_k - medium", "iq4_nl - 4.5 bpw", "iq4_xs - 4.25 bpw"), "int4"),
}


def _command(order: LaunchConfig) -> Command:
    argv = [
        *(order.python, "-m", "llama_cpp.server", "--model", order.gguf, "--model_alias", order.name),
        *("--host", order.listen, "--port", str(order.port)),
        *("--n_ctx", str(order.context_tokens), "--n_threads", str(order.threads)),
        *("--n_threads_batch", str(order.threads)),
        # On by default: a new request would cut off the one that runs, with HTTP 200 and no error.
        *("--interrupt_requests", "false"),
        *(() if order.device.kind == "cpu" else ("--n_gpu_layers", "-1")),
        *order.args,
    ]
    return Command(tuple(argv), {**thread_environment(order.threads), **gpu_environment(order.device)})


def _facts(seen: ServerOutput) -> dict[str, Fact]:
    facts = {
        "serving.batching": declared("one at a time", "llama_cpp.server holds a lock over its one sequence"),
        "serving.max_sequences": declared(1, "llama_cpp.server holds a lock over its one sequence"),
    }
    if match := _FILE_TYPE.search(seen.log):
        facts["precision.weights"] = declared(_named(match[1]), "the log, file type")
        facts["precision.detail"] = declared(match[1].strip(), "the log, file type")
    if match := _CACHE.search(seen.log):
        keys, values = _named(match[1]), _named(match[2])
        facts["precision.kv"] = declared(
            keys if keys == values else f"{keys} keys, {values} values", "the log, KV cache"
        )
    if match := _STEP.search(seen.log):
        facts["serving.max_batched_tokens"] = declared(int(match[1]), "the log, n_ubatch")
    if match := _FLASH.search(seen.log):
        facts["serving.attention"] = declared(f"flash attention {match[1]}", "the log")
    return facts


def _named(word: str) -> str:
    known = word.strip().lower().removesuffix("(guessed)").strip()
    return _FORMATS.get(known, word.strip())


RECIPE = Recipe(
    kind="llama-cpp",
    name="llama-cpp-python",
    packages=("llama-cpp-python",),
    casts=(),  # the format of its GGUF file
    install="pip install 'llama-cpp-python[server]' into a Python of its own, and name it in executor.options.python",
    ready="/v1/models",
    pages=("/v1/models",),
    command=_command,
    facts=_facts,
    start_timeout_s=300.0,
    needs_gguf=True,
    nobody_joins="answers one request at a time",
    unasked=("--interrupt_requests false",),
    switches=SWITCHES,
)
EXECUTOR = launched(RECIPE)
