"""Watch a training loop of your own: two lines around it, and it is a run like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinlens.measurement.own_loop.loop import OwnLoop
from twinlens.measurement.own_loop.recording import Watching


def watch(
    model: Any = None,
    optimizer: Any = None,
    *,
    name: str = "own-loop",
    out: str | Path = "runs",
    precision: str | None = None,
    steady_s: float = 30.0,
    telemetry_s: float = 1.0,
    profile: bool = True,
    ceilings: bool = False,
) -> OwnLoop:
    """The loop inside `with tl.watch(model, optimizer) as run:` becomes a run folder under `out`.

    A row is one step of `optimizer`, which may be wrapped by accelerate or DeepSpeed. Take batches through
    `for batch in run.data(loader):` and the wait for them is known too. Without a model: `with run.step(samples=8):`.
    `precision`: the one that you mean it to have, which is then checked; else what is found. `steady_s`: the shortest
    window that may be called steady. `profile`: see the kernels of the second forward and backward pass, which slows
    it. `ceilings`: measure this device's rates when the loop is over, for MFU and the roofline; it takes seconds.
    Raises BadInput for a model or optimizer that is none, a name that makes no folder, and a folder that cannot be
    written. Once the loop runs, an error of ours ends the watching with a warning, and never the loop.
    """
    return OwnLoop(model, optimizer, Watching(name, Path(out), precision, steady_s, telemetry_s, profile, ceilings))
