"""The protocol: duration, repeats, seeds, the rule for a steady run, and the quality to compare."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from twinlens.spec.frozen import Spec


class Tolerance(Spec):
    """The quality check of a lower precision against fp32 on the same prompts."""

    top1_agreement: Annotated[float, Field(ge=0, le=1)] = Field(
        0.95, description="The least share of tokens on which a lower precision agrees with fp32."
    )
    kl_nats: PositiveFloat = Field(
        0.05, description="The most mean Kullback–Leibler divergence from fp32, in nats per token."
    )
    perplexity_change: PositiveFloat = Field(0.02, description="The most relative change of perplexity against fp32.")


class Stall(Spec):
    """A fault injected into a launched server: it is paused `at_s` into the load, and continues `for_s` later."""

    at_s: NonNegativeFloat = Field(
        description="How long after the first request the server is paused.", examples=[10.0]
    )
    for_s: PositiveFloat = Field(description="How long it stays paused.", examples=[2.0])


class Kill(Spec):
    """A fault injected into parallel training: one rank is killed, and torchrun starts all of them again.

    They go on from the last save, so `workload.checkpoint` is needed.
    """

    at_step: PositiveInt = Field(description="The optimizer step in which a rank is killed, from 1.", examples=[50])
    rank: NonNegativeInt = Field(0, description="The rank that is killed.")
    restarts: PositiveInt = Field(
        3, description="How often torchrun may start the ranks again; an attempt may fail by itself."
    )


class Protocol(Spec):
    """How a run is measured.

    `pairing`: with "slices" the points of a repeat work `slice_s` seconds at a time, one at any moment, so that what
    disturbs the machine meets all of them. `duration_s` is then the working time of each point (with `most_s` the least
    of it), and neither `extend` nor `retakes` applies. A slice is as many whole rows as fill it; of a closed loop it is
    requests in whole waves, and is over when the last has ended.
    """

    warmup: Literal["auto"] = Field(
        "auto", description='How warm-up ends; "auto" is the only rule: when the level is first reached.'
    )
    duration_s: PositiveFloat = Field(60.0, description="How long rows are taken, warm-up included.")
    most_s: NonNegativeFloat = Field(
        0.0,
        description="Under load, go on after `duration_s` until the SLO is decided or, without one, p90 TTFT is known "
        "within `width`; by turns, until every ratio of two points is. So long at most. 0: `duration_s` and no longer.",
    )
    width: PositiveFloat = Field(
        0.2,
        description="How far either bound of p90 TTFT, or of a ratio by turns, may lie from it to end a run that has "
        "`most_s`.",
    )
    min_rows: PositiveInt = Field(
        30,
        description="The least number of rows, waited for up to three durations and ten seconds.",
    )
    steady_s: NonNegativeFloat = Field(
        30.0,
        description="The shortest window that may be called steady; a GPU needs minutes, so ask for 600 there.",
    )
    extend: NonNegativeInt = Field(1, description="How often the duration of a run that is not steady may be doubled.")
    repeats: PositiveInt = Field(
        3, description="Fresh processes per operating point; three or more give intervals over runs."
    )
    retakes: NonNegativeInt = Field(
        1, description="How often a run that others disturbed in passing is taken again; all attempts are kept."
    )
    seed: NonNegativeInt = Field(0, description="The seed of weights, data, prompts and the order of runs.")
    isolate: bool = Field(
        True, description="Run each repeat in a process of its own; false runs it in this one, for notebooks and tests."
    )
    telemetry_s: PositiveFloat = Field(
        0.5,
        description="The time between samples of the machine, and of a server's own metrics (at least 0.5).",
    )
    ceilings: bool = Field(True, description="Measure the rates of this machine beside each run.")
    guards: bool = Field(
        False,
        description="See whether a server over HTTP caches, miscounts, changes or shortens answers under load, and "
        "compare the greedy answers of points; of the embedded engine, keep its greedy answers to fixed prompts.",
    )
    tolerance: Tolerance = Field(
        Tolerance(), description="Limits of the quality check of a lower precision: pass or fail."
    )
    stall: Stall | None = Field(
        None,
        examples=[{"at_s": 10.0, "for_s": 2.0}],
        description="Pause the server during the load, to see what a client reports of it; for launched servers only.",
    )
    kill: Kill | None = Field(
        None,
        examples=[{"at_step": 50}],
        description="Kill a rank of parallel training during the run, to measure what a failure costs.",
    )
    hopeless_s: NonNegativeFloat = Field(
        10.0,
        description="Give up a run under load when nothing but the same failure has come for so long; 0 never does.",
    )
    not_installed: Literal["refuse", "leave-out"] = Field(
        "refuse",
        description='"leave-out": points whose runtime is not installed here go on record with the reason.',
    )
    pairing: Literal["none", "slices"] = Field(
        "none",
        description='"slices": the points of a repeat take turns, so that their ratios hold on a busy machine.',
    )
    slice_s: PositiveFloat = Field(0.5, description="How long a point works in its turn where points take turns.")
