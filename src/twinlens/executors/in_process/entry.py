"""The entry of an engine in this process: light until a run of it is opened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from twinlens.executors.capabilities import Capabilities, Executor, named
from twinlens.spec.study import RunSpec

if TYPE_CHECKING:  # it brings numpy
    from twinlens.executors.in_process.engine import Runtime


def engine_executor(extra: str, can: Capabilities, runtime_of: Callable[[RunSpec], Runtime]) -> Executor:
    """The executor of an engine in this process, whose packages are imported when a run of it is opened.

    `extra`: installs them. `runtime_of`: raises ImportError where they are not there.
    """

    server = partial(named("twinlens.executors.in_process.engine_server:EngineServer"), extra, runtime_of)

    def preload(spec: RunSpec) -> None:
        runtime_of(spec)
        server()

    return Executor(can, server=server, preload=preload)
