"""Basis of a simulated training from words: fitted to measured runs, read from a table, or modelled for a device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twinlens.api.simulating.basis import runs_of, table_of
from twinlens.api.simulating.settings import UNREADABLE
from twinlens.api.simulating.training_settings import TrainingSettings
from twinlens.errors import BadInput, nearest
from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Run
from twinlens.simulation.training.composed import Composed
from twinlens.simulation.training.course import Constant, Course
from twinlens.simulation.training.fitted import fitted
from twinlens.simulation.training.forecast import Known
from twinlens.simulation.training.pipeline import Order, Pipeline, timeline
from twinlens.simulation.training.rows import Step
from twinlens.simulation.training.steps import Lognormal
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload

_DIVIDES = ("pipeline", "parts", "schedule", "microbatches", "tensor")
_MOST_PASSES = 50_000
_SAME = ("model", "global_batch", "seq_len", "optimizer", "method", "checkpointing")
_CONSTANTS = ("step_s", "data_s", "save_s", "restart_s", "startup_s", "optimizer_s", "exposed_s", "transfer_s", "cv")
_LISTS = ("forward_s", "backward_s")


def workload_of(spec: RunSpec) -> TrainingWorkload:
    """The workload of a spec that is known to train."""
    assert isinstance(spec.workload, TrainingWorkload)
    return spec.workload


def learnt(like: Sequence[Any], spec: RunSpec, said: TrainingSettings) -> Known:
    """A course fitted to those of the runs that are of the spec's point. Raises BadInput."""
    _refuse_of_measured(said)
    runs = [run for each in like for run in runs_of(each)]
    trained = [run for run in runs if run.lens == "training"]
    mine = [run for run in trained if _point_of(run.spec) == _point_of(spec)]
    if trained and not mine:
        raise BadInput(_apart(trained[0], spec), code=UNREADABLE)
    taught = [run for run in mine if run.is_finished and summary_of(run).validity != "not valid"]
    found = fitted(taught or mine or runs)
    ranks = said["ranks"] or found.ranks
    if ranks % found.ranks:
        raise BadInput(f"the steps were measured with {found.ranks} ranks, so ranks is a multiple of that, not {ranks}",
                       code=UNREADABLE)  # fmt: skip
    groups = ranks // found.ranks
    compute = sum(found.step.shares.get(name, 0.0) for name in ("forward", "backward", "optimize"))
    moved = found.step.shares.get("communicate", 0.0)
    shares = {"compute": compute, "communication": moved, "untold": max(0.0, 1 - compute - moved)}
    doubts = ["one run alone does not say how far the next would be off: give three repeats with --like"]
    doubts = doubts if "repeats" in found.lacks else []
    if len(taught) < len(mine):
        doubts.append(
            f"{len(mine) - len(taught)} of {len(mine)} runs are left out, as they are unfinished or not valid"
        )
    if groups > 1:
        doubts.append(f"what {ranks} ranks exchange beyond the {found.ranks} that were measured takes no time here")
    step = replace(found.step, samples=found.step.samples * groups, tokens=found.step.tokens * groups)
    lacks = tuple(each for each in found.lacks if each != "repeats")
    source = f"{len(taught)} measured run{'' if len(taught) == 1 else 's'}"
    course = replace(found.course, factors=factors_of(ranks, said), source=source)
    return Known(course, step, shares, "fitted", _product(mine[0]), None, tuple(doubts), lacks)


def _refuse_of_measured(said: TrainingSettings) -> None:
    if said["jitter"] is not None:
        raise BadInput("jitter is in the steps of a measured run; leave it out", code=UNREADABLE)
    other = next((name for name in (*_DIVIDES, "device", *said.factors) if name in said.said or name in said.factors),
                 None)  # fmt: skip
    if other is not None:
        raise BadInput(
            f"the steps of a measured run do not say what {other} does to them; model them with --device H100, or "
            "give them in a table (--law FILE)", code=UNREADABLE)  # fmt: skip


def _point_of(spec: RunSpec) -> dict[str, Any]:
    """What must be the same where steps of one training stand for those of another."""
    workload = workload_of(spec)
    return {name: getattr(workload, name) for name in _SAME} | {
        "precision": spec.point.precision, "microbatch": spec.point.microbatch
    }  # fmt: skip


def _apart(run: Run, spec: RunSpec) -> str:
    theirs, ours = _point_of(run.spec), _point_of(spec)
    name = next(each for each in ours if ours[each] != theirs[each])
    return (f"no run of --like is of this training: {run.id} has {name} {theirs[name]}, and the spec {ours[name]}; "
            "simulate the spec of the runs: `twinlens simulate RUN --like RUN`")  # fmt: skip


def _product(run: Run) -> str:
    named = [run.facts.executor.value(each) for each in ("accelerator.product", "host.cpu.model")] if run.facts else []
    return str(next(filter(None, named), ""))


def factors_of(ranks: int, said: TrainingSettings) -> tuple[float, ...]:
    """How much slower each rank is: the last by `slow`. Raises BadInput (TL250) where it is alone."""
    if said["slow"] is not None and ranks == 1:
        raise BadInput("slow is of one rank among others, and there is one: --set ranks=8", code=UNREADABLE)
    return (1.0,) * (ranks - 1) + (said["slow"] or 1.0,)


def quoted(path: Path, spec: RunSpec, said: TrainingSettings, ranks: int) -> Known:
    """A table of seconds: step_s, or forward_s and backward_s of the parts of a pipeline. Raises BadInput (TL250)."""
    data = table_of(path)
    if "training" not in data and ("fixed_s" in data or "parts" in data):
        raise BadInput(f"the law {path.name!r} is of serving alone; add [training] with step_s = 0.5", code=UNREADABLE)
    beside = data.get("training", data)  # beside a law of serving it is a table of its own
    if not isinstance(beside, dict):
        raise BadInput("[training] of a law is a table: step_s = 0.5", code=UNREADABLE)
    return from_table(beside, path.name, spec, said, ranks)


def from_table(data: Mapping[str, Any], name: str, spec: RunSpec, said: TrainingSettings, ranks: int) -> Known:
    """The same of a table that was read. `name`: of its file."""
    known = (*_CONSTANTS, *_LISTS, "microbatches", "source", "device")
    for each in data:
        if each not in known:
            raise BadInput(f"a table of training has no {str(each)[:40]!r}; {nearest(str(each), known)}",
                           code=UNREADABLE)  # fmt: skip
    has_step, has_passes = "step_s" in data, all(each in data for each in _LISTS)
    if has_step == has_passes:
        raise BadInput("a table of training has step_s, the seconds of a step, or forward_s and backward_s, those of "
                       "a microbatch on each part of a pipeline", code=UNREADABLE)  # fmt: skip
    if said["device"] is not None or said.factors or said["tensor"] is not None:
        raise BadInput("a table says nothing of another machine or of tensor groups; give --device in its place",
                       code=UNREADABLE)  # fmt: skip
    constants = {each: _amount(each, data[each]) for each in _CONSTANTS if each in data}
    shares, passes, whole_s, times = {"untold": 1.0}, None, constants.get("step_s", 0.0), 1.0
    if has_passes:
        forward, backward = (_amounts(each, data[each]) for each in _LISTS)
        if len(forward) != len(backward):
            raise BadInput(f"forward_s has {len(forward)} parts and backward_s {len(backward)}; they are of the same",
                           code=UNREADABLE)  # fmt: skip
        usual = _whole("microbatches", data.get("microbatches"))
        microbatches = said["microbatches"] or usual
        times = microbatches / usual
        made = pipelined(forward, backward, microbatches, said, constants)
        shares, passes, whole_s = _shares(made), made.passes, made.total_s
    elif divides := next((each for each in _DIVIDES if said[each] is not None), None):
        raise BadInput(f"{divides} needs forward_s and backward_s of each part in the table, in place of step_s",
                       code=UNREADABLE)  # fmt: skip
    if not whole_s > 0:
        raise BadInput("a step takes seconds above 0, and the table says 0", code=UNREADABLE)
    course = Course(
        0, Lognormal(whole_s, constants.get("cv", 0.0) if said["jitter"] is None else said["jitter"]),
        factors_of(said["ranks"] or ranks, said), Lognormal(constants["data_s"]) if constants.get("data_s") else None,
        save=Constant(constants.get("save_s", 0.0)), restart=Constant(constants.get("restart_s", 0.0)),
        startup=Constant(constants.get("startup_s", 0.0)), source=str(data.get("source", name)),
    )  # fmt: skip
    lacks = tuple(each for each in ("save", "restart", "startup") if f"{each}_s" not in data)
    step, times = step_of(spec), times * (said["ranks"] or ranks) / ranks  # of a larger batch each has its own part
    step = replace(step, samples=round(step.samples * times), tokens=round(step.tokens * times))
    return Known(course, step, shares, "quoted", str(data.get("device", "")), passes, (), lacks)


def step_of(spec: RunSpec) -> Step:
    """Samples and tokens of a step, as the spec says; an image has no tokens."""
    workload = workload_of(spec)
    is_text = isinstance(spec.model.shape, DecoderShape)
    return Step(workload.global_batch, workload.global_batch * workload.seq_len if is_text else 0)


def pipelined(
    forward: Sequence[float], backward: Sequence[float], microbatches: int, said: TrainingSettings,
    constants: Mapping[str, float],
) -> Composed:  # fmt: skip
    """A step of a pipeline. Parts are as many as stages, unless said."""
    stages = said["pipeline"] or len(forward) // (said["parts"] or 1) or 1
    per_stage = len(forward) // stages
    order: Order = said["schedule"] or ("interleaved" if per_stage > 1 else "1f1b")
    if 2 * len(forward) * microbatches > _MOST_PASSES:
        raise BadInput(f"{len(forward)} parts and {microbatches:,} microbatches are more than the {_MOST_PASSES:,} "
                       "passes that are simulated at most; fewer microbatches", code=UNREADABLE)  # fmt: skip
    pipeline = Pipeline(stages, microbatches, np.array(forward), np.array(backward), order,
                        constants.get("transfer_s", 0.0))  # fmt: skip
    return Composed(timeline(pipeline), (), constants.get("exposed_s", 0.0), constants.get("optimizer_s", 0.0))


def _shares(made: Composed) -> dict[str, float]:
    """Shares of a step by cause; the bubble is what stages wait on average."""
    bubble = made.passes.idle_share * made.passes.makespan_s / made.total_s
    moved = made.exposed_s / made.total_s
    return {"compute": 1 - bubble - moved, "communication": moved, "bubble": bubble}


def _amount(name: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(float(value)) or float(value) < 0:  # type: ignore[arg-type]
        raise BadInput(f"{name} of training is a number from 0 on, not {str(value)[:40]!r}", code=UNREADABLE)
    return float(value)  # type: ignore[arg-type]


def _amounts(name: str, value: object) -> list[float]:
    if not isinstance(value, list) or not value:
        raise BadInput(f"{name} is a list, a number for each part of the pipeline, not {str(value)[:40]!r}",
                       code=UNREADABLE)  # fmt: skip
    return [_amount(name, each) for each in value]


def _whole(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadInput(f"{name} of a pipeline is a whole number from 1 on, and the table says {str(value)[:40]!r}",
                       code=UNREADABLE)  # fmt: skip
    return value
