"""Options of a predicted speed that `plan capacity`, `plan cost` and `plan roi` share."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="70B, a model of `list models`, a folder, config.json.")
]
Ttft = Annotated[str | None, typer.Option("--ttft", metavar="TIME", help="Target: 500ms, 2s.")]
Tpot = Annotated[str | None, typer.Option("--tpot", metavar="TIME", help="Target: 50ms is 20 tokens/s.")]
Tensor = Annotated[str | None, typer.Option("--tensor", metavar="COUNT", help="Devices that share each layer.")]
Engine = Annotated[str | None, typer.Option("--engine", metavar="NAME", help="vllm, sglang, trtllm, fsdp, megatron …")]
Of = Annotated[str | None, typer.Option("--of", metavar="WHAT", help="What keeps a target: p99 or mean.")]
