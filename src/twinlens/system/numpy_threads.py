"""numpy with one BLAS thread: idle BLAS threads cost 0.1 s at start, and spin beside what is being measured."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_THREADS = "OPENBLAS_NUM_THREADS"


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """A numpy first loaded meanwhile, here or in a process started meanwhile, has one thread, unless the user's own
    environment says otherwise. Afterwards the environment is as before: what is measured must not inherit it."""
    if _THREADS in os.environ:
        yield
        return
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        os.environ.pop(_THREADS, None)


def load_numpy() -> None:
    """Load it so, before anything else does."""
    with one_blas_thread():
        import numpy  # noqa: F401
