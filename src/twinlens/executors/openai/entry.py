"""The capabilities of a server that is already up and speaks the OpenAI API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.executors.capabilities import ALL_ARRIVALS, Capabilities, Executor
from twinlens.executors.openai.options import OPTIONS, POOL_OPTIONS

if TYPE_CHECKING:
    from twinlens.executors.protocol import Server


def _server() -> Server:
    from twinlens.executors.openai.executor import OpenAIServer

    return OpenAIServer()


EXECUTOR = Executor(
    Capabilities(
        runs="elsewhere",
        arrivals=ALL_ARRIVALS,
        tasks=("generate", "embed", "rerank"),
        options={**OPTIONS, **POOL_OPTIONS},
        prompts="text",
    ),
    server=_server,
)
