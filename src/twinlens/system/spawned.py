"""A process of multiprocessing, spawned, that knows nothing of the script that started it."""

from __future__ import annotations

import sys
from multiprocessing.context import SpawnProcess
from types import ModuleType

from twinlens.system.processes import one_blas_thread


def start(process: SpawnProcess) -> None:
    """Start it, with one BLAS thread. Its target lies in a module that can be imported, never in a script.

    A spawned process runs the user's script again, as `__mp_main__`, and a script that measures and does not ask for
    `__name__ == "__main__"` would measure again in it. So there is no script meanwhile.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        with one_blas_thread():
            process.start()
    finally:
        sys.modules["__main__"] = script
