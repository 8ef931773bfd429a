"""A process that reads runs, prints and ends: what Python and pyarrow do for longer lives is left out."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS = 200_000


def only_read() -> None:
    """Make this process one that reads, prints and ends. Only its entry point knows that it is; nothing that measures
    may call this."""
    from twinlens.system.freed_memory import keep_freed_memory
    from twinlens.system.processes import one_blas_thread

    _collect_seldom()
    with one_blas_thread():  # scipy brings another BLAS, whose idle threads spin as well
        import scipy.special  # noqa: F401
    keep_freed_memory()
    keep_pandas_out()


def only_compute() -> None:
    """Make this process one that computes, prints and ends, without a run to read. Only its entry point knows that.

    Nobody's plugins watch how models of pydantic are built: to look for some reads what every package declares.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _collect_seldom()


def _collect_seldom() -> None:
    """Look for garbage after 200,000 new objects, not after 700, and not once more at the end.

    Imports make hundreds of thousands of objects, all of which stay: looking through them again and again took a tenth
    of the processor time of `diagnose`, half of it when all was printed.
    """
    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)  # what is frozen is not looked through


@contextmanager
def uncollected() -> Iterator[None]:
    """No look for garbage meanwhile: what imports make, stays, and to look through it took a tenth of their time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


_PLUGINS, _ROOTS = "PYDANTIC_DISABLE_PLUGINS", ("SSL_CERT_FILE", "SSL_CERT_DIR")


@contextmanager
def beginning() -> Iterator[None]:
    """The start of a process that serves for long: meanwhile garbage is not looked for, and what was made stays out of
    every later look. Nobody's plugins watch pydantic, and no context for TLS that is made meanwhile has roots: aiohttp
    makes two with its import, 0.1 s of processor time, and whoever asks over https here brings one of its own.

    Afterwards the environment is as before.
    """
    kept = {name: os.environ.get(name) for name in (_PLUGINS, *_ROOTS)}
    os.environ |= {_PLUGINS: "__all__", **dict.fromkeys(_ROOTS, os.devnull)}
    try:
        with uncollected():
            yield
    finally:
        gc.freeze()
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class WithoutPandas:
    """A finder of modules that finds no pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("a process of ours does without pandas", name=name)


def keep_pandas_out() -> None:
    """Let pyarrow take pandas for not installed; others may import it as ever. It stays where it is imported already.

    With its first array pyarrow imports pandas, to tell a data frame from other values: 0.15 to 0.5 s, and no frame is
    made. Only for a process of ours that runs nobody else's code, which may ask pyarrow for a data frame.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa  # after numpy

    sys.meta_path.insert(0, WithoutPandas)
    try:
        pa.array([0]).to_numpy()  # it asks once in Python and once in C++, and remembers both answers
    finally:
        sys.meta_path.remove(WithoutPandas)
