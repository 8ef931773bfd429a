"""While requests are played, neither garbage collection nor other threads keep the client from them for long."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

_SWITCH_S = 0.0005
_GARBAGE = 50_000
_calm = [False]  # whether somebody in this process is inside `undisturbed`


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Other threads hand the interpreter back soon, and collecting garbage does not walk over what was there before.

    Once is enough: inside another one nothing is done, so that a load of many slices collects before the first only.
    What a caller froze stays frozen: Python can only unfreeze all objects, so nothing more is frozen then.
    """
    if _calm[0]:
        yield
        return
    switch_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    frozen_by_caller = gc.get_freeze_count() > 0
    try:
        _calm[0] = True
        sys.setswitchinterval(_SWITCH_S)
        gc.collect()
        if not frozen_by_caller:
            gc.freeze()
        gc.set_threshold(_GARBAGE, *thresholds[1:])
        yield
    finally:
        _calm[0] = False
        gc.set_threshold(*thresholds)
        if not frozen_by_caller:
            gc.unfreeze()
        sys.setswitchinterval(switch_s)
