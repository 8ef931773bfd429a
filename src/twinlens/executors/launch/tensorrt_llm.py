"""TensorRT-LLM through `trtllm-serve`, PyTorch back end. Tested on recorded output only: it needs an NVIDIA GPU."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.executors.launch.recipe import Command, Order, Recipe, Seen, gpu_environment, thread_environment
from twinlens.executors.launch.server import LaunchedServer
from twinlens.record.executor import Fact, declared

_VERSION = re.compile(r"TensorRT[- ]LLM version: (\S+)")


def _command(order: Order) -> Command:
    if order.precision not in ("bf16", "fp16"):
        raise BadInput(
            f"tensorrt-llm computes in the format of the model folder; ask for bf16 or fp16, not {order.precision}",
            code="TL203",
        )
    argv = [
        str(Path(order.python).with_name("trtllm-serve")),
        *("serve", order.folder, "--backend", "pytorch"),
        *("--host", "127.0.0.1", "--port", str(order.port)),
        *("--max_seq_len", str(order.context_tokens)),
        *order.args,
    ]
    environment = {
        "HF_HUB_OFFLINE": "1",
        "TLLM_DISABLE_NVTX": "1",
        **thread_environment(order.threads),
        **gpu_environment(order.device),
    }
    return Command(tuple(argv), environment)


def _facts(seen: Seen) -> dict[str, Fact]:
    facts: dict[str, Fact] = {"serving.batching": declared("continuous (in flight)", "TensorRT-LLM's executor")}
    page = seen.pages.get("/version")
    if isinstance(page, dict) and isinstance(page.get("version"), str):
        facts["software.runtime.version"] = declared(page["version"], "/version")
    elif found := _VERSION.search(seen.log):
        facts["software.runtime.version"] = declared(found[1], "the log")
    return facts


RECIPE = Recipe(
    kind="tensorrt-llm",
    name="tensorrt-llm",
    packages=("tensorrt-llm",),
    install="use NVIDIA's container or index for tensorrt-llm, and name its interpreter in executor.options.python",
    ready="/health",
    pages=("/version", "/v1/models"),
    command=_command,
    facts=_facts,
    start_timeout_s=1800.0,
    names_by_folder=False,
    tried=False,
)
server = partial(LaunchedServer, RECIPE)
