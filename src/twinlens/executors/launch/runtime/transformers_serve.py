"""`transformers serve`: what everybody who can run the torch executor can also serve with."""

from __future__ import annotations

from twinlens.executors.launch.entry import launched
from twinlens.executors.launch.recipe import (
    Command,
    LaunchConfig,
    Recipe,
    ServerOutput,
    offline_environment,
    torch_name,
)
from twinlens.executors.launch.switches import Switch, flag, on_off, switch
from twinlens.executors.settings_text import formats
from twinlens.record.executor.record import Fact, declared

_BLOCK_TOKENS, _MOST_BATCH_TOKENS, _KEPT_TOKENS = 32, 512, 16384


def _command(order: LaunchConfig) -> Command:
    blocks = -(-max(_KEPT_TOKENS, 4 * order.context_tokens) // _BLOCK_TOKENS)
    argv = [
        *(order.python, "-m", "transformers.cli.transformers", "serve", order.folder),
        *("--device", order.device.kind, "--dtype", torch_name(order, "transformers-serve")),
        *("--host", order.listen, "--port", str(order.port)),
        "--continuous-batching",
        *("--cb-block-size", str(_BLOCK_TOKENS)),
        *("--cb-num-blocks", str(blocks), "--cb-max-batch-tokens", str(_MOST_BATCH_TOKENS)),
        *(("--compile",) if order.graph == "compiled" else ()),
        *order.args,
    ]
    return Command(tuple(argv), offline_environment(order))


def _facts(seen: ServerOutput) -> dict[str, Fact]:
    """Its flags are all that it tells: it has no page and no metric about itself."""
    source = "the command line of its process"
    flag = dict(zip(seen.argv, seen.argv[1:], strict=False))
    is_continuous = "--continuous-batching" in seen.argv and "--no-continuous-batching" not in seen.argv
    facts = {"serving.batching": declared("continuous, paged" if is_continuous else "one at a time", source)}
    for field, name in (
        ("serving.max_batched_tokens", "--cb-max-batch-tokens"),
        ("serving.kv_block_tokens", "--cb-block-size"),
        ("serving.kv_blocks", "--cb-num-blocks"),
    ):
        if flag.get(name, "").isdigit():
            facts[field] = declared(int(flag[name]), source)
    if "--attn-implementation" in flag:
        facts["serving.attention"] = declared(flag["--attn-implementation"], source)
    return facts | formats(flag.get("--dtype"), "auto", source)


SWITCHES = (
    Switch(
        "continuous_batching", bool, on_off("--continuous-batching", "--no-continuous-batching"), "serving.batching",
        "Batch requests at every step, with a paged KV cache; without it the server answers one request at a time.",
    ),
    Switch(
        "attention", str, flag("--attn-implementation"), "serving.attention",
        "The attention implementation that the server is asked for, such as sdpa.",
    ),
    switch("max_batched_tokens", "--cb-max-batch-tokens"),
    switch("kv_block_tokens", "--cb-block-size"),
    Switch(
        "kv_blocks", int, flag("--cb-num-blocks"), "serving.kv_blocks",
        "Blocks of the KV cache, which bound the requests that run at once.",
    ),
)  # fmt: skip
RECIPE = Recipe(
    kind="transformers-serve",
    graphs=("auto", "compiled"),
    name="transformers serve",
    packages=("transformers",),
    needs=("uvicorn", "fastapi", "openai"),
    install="pip install 'twinlens[serve]'",
    ready="/health",
    command=_command,
    facts=_facts,
    start_timeout_s=300.0,
    called="folder",
    switches=SWITCHES,
    unasked=("--continuous-batching", "--cb-block-size", "--cb-num-blocks", "--cb-max-batch-tokens"),
)
EXECUTOR = launched(RECIPE)
