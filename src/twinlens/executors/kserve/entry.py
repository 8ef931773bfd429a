"""The capabilities of a server that is already up and speaks the KServe v2 protocol over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.executors.capabilities import ALL_ARRIVALS, Capabilities, Executor
from twinlens.executors.kserve.options import OPTIONS
from twinlens.executors.openai.options import POOL_OPTIONS

if TYPE_CHECKING:
    from twinlens.executors.protocol import Server


def _server() -> Server:
    from twinlens.executors.kserve.executor import KServeServer

    return KServeServer()


EXECUTOR = Executor(
    Capabilities(
        runs="elsewhere",
        families=("vit", "resnet"),
        arrivals=tuple(kind for kind in ALL_ARRIVALS if kind not in ("lockstep", "trace")),
        tasks=("classify",),
        options={**OPTIONS, **POOL_OPTIONS},
        prompts="text",
    ),
    server=_server,
)
