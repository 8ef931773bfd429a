"""The protocol: duration, repeats, seeds, the rule for a steady run, and the quality to compare."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from twinlens.spec.frozen import Spec


class Tolerance(Spec):
    """The go / no-go gate of a lower precision against fp32 on the same prompts."""

    top1_agreement: Annotated[float, Field(ge=0, le=1)] = 0.95
    kl_nats: PositiveFloat = 0.05
    perplexity_change: PositiveFloat = 0.02


class Stall(Spec):
    """A fault injected into a launched server: it is paused `at_s` into the load, and continues `for_s` later."""

    at_s: NonNegativeFloat
    for_s: PositiveFloat


class Protocol(Spec):
    """`duration_s`: how long rows are taken, warm-up included. `min_rows`: go on for up to
    three durations and ten seconds until there are as many rows.

    `steady_s`: the shortest window that may be called steady (heat and governors need minutes on a GPU: ask for 600
    there). `extend`: how often a run that is not steady may be doubled. `repeats`: fresh processes per operating
    point. `isolate`: a process of its own for each run (False: in this process, for notebooks and tests).
    `retakes`: how often a run that others disturbed in passing is taken again (all attempts are kept).
    `guards`: see whether a server over HTTP caches, miscounts, changes or shortens answers under load; asks afterwards.
    `telemetry_s`: time between samples of the machine, and of a server's own metrics (there half a second at least).
    `ceilings`: measure this machine's rates beside each run.
    `stall`: pause the server during the load; for launched servers only.
    `hopeless_s`: a run under load is given up when nothing but the same failure has come for so long (0: never).
    `pairing`: "slices": the points of a repeat are up together and work in turns, `slice_s` seconds at a time, one at
    any moment, so that what disturbs the machine meets all of them and their ratios stand. `duration_s` is then the
    working time of each point, and neither `extend` nor `retakes` applies. A slice is as many whole rows as fill it; of
    a closed loop it is requests in whole waves, and is over when the last has ended.
    """

    warmup: Literal["auto"] = "auto"
    duration_s: PositiveFloat = 60.0
    min_rows: PositiveInt = 30
    steady_s: NonNegativeFloat = 30.0
    extend: NonNegativeInt = 1
    repeats: PositiveInt = 3
    retakes: NonNegativeInt = 1
    seed: NonNegativeInt = 0
    isolate: bool = True
    telemetry_s: PositiveFloat = 0.5
    ceilings: bool = True
    guards: bool = False
    tolerance: Tolerance = Tolerance()
    stall: Stall | None = None
    hopeless_s: NonNegativeFloat = 10.0
    pairing: Literal["none", "slices"] = "none"
    slice_s: PositiveFloat = 0.5
