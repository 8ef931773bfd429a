"""A callback for the Trainer of transformers, which those of trl take too: its run becomes a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.measurement.own_loop.loop import OwnLoop
from twinlens.measurement.own_loop.recording import Watching


def trainer_callback(
    *,
    name: str = "trainer",
    out: str | Path = "runs",
    precision: str | None = None,
    steady_s: float = 30.0,
    telemetry_s: float = 1.0,
    profile: bool = True,
    ceilings: bool = False,
) -> Any:
    """For `Trainer(…, callbacks=[tl.trainer_callback()])`: each `train()` becomes a run, as `tl.watch` makes it.

    The options are those of `tl.watch`. Data is what lies between two steps and is no logging, evaluation or saving.
    A Trainer tells no callback that `train()` raised: such a run is ended when the process ends, or the next one
    begins. Raises BadInput (TL217) where transformers is not installed.
    """
    try:
        from twinlens.executors.torch.own_loop.trainer_events import trainer_events
    except ImportError:
        raise BadInput("tl.trainer_callback needs transformers: pip install 'twinlens[torch]'", code="TL217") from None
    how = Watching(name, Path(out), precision, steady_s, telemetry_s, profile, ceilings)

    return trainer_events(lambda model, optimizer: OwnLoop(model, optimizer, how).__enter__())
