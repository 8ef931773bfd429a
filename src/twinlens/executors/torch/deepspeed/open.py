"""Opens a run on one rank of DeepSpeed: an engine to compare and to look at, then the one that the rows are taken with.

Needs deepspeed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import deepspeed

from twinlens.executors.protocol import Say
from twinlens.executors.torch.deepspeed.engine import ZeroEngine, divided_by
from twinlens.executors.torch.deepspeed.options import ZeroOptions
from twinlens.executors.torch.evidence.memory import forget_peak
from twinlens.executors.torch.evidence.training import training_facts
from twinlens.executors.torch.parallel.degrees import compared_model, twin_numbers, with_model
from twinlens.executors.torch.parallel.one_process import alone
from twinlens.executors.torch.parallel.rank import Rank
from twinlens.executors.torch.parallel.training import RankTraining
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.study import RunSpec
from twinlens.units import BYTES

Made = Callable[[AnyModel], tuple[RankTraining, ZeroEngine]]


def open_zero(spec: RunSpec, rank: Rank, say: Say) -> tuple[RankTraining, dict[str, Any]]:
    """The training of this rank, and the answer to the order. Raises BadInput (TL203)."""
    asked = ZeroOptions.of(spec.executor.options)
    plain, backend = rank.joined(spec, asked.patience_s)
    deepspeed.init_distributed(dist_backend=backend)
    say("building the model")

    def made(model: AnyModel = spec.model) -> tuple[RankTraining, ZeroEngine]:
        training = RankTraining(with_model(plain, model), asked, rank.device, divided_by(asked, say))
        assert isinstance(training.divided.engine, ZeroEngine)
        return training, training.divided.engine

    compared = _compared(spec, asked, made, say) if asked.compared_steps else {}
    first, engine = made()
    engine.watch()
    facts = _facts(first, engine, asked, rank, backend, say)
    _end(first, engine)
    del first, engine
    forget_peak(rank.device)
    training, _ = made()
    forget_peak(rank.device)  # last: building holds more than any row does
    return training, {"facts": encode(facts), "exchange": {}, "compared": compared, "backend": backend}


def _compared(spec: RunSpec, asked: ZeroOptions, made: Made, say: Say) -> dict[str, Any]:
    """Losses of one process beside those of an engine, of the run's own model or of its twin."""
    model = compared_model(spec)
    first, engine = made(model)
    told: dict[str, Any] = {**twin_numbers(spec, model), "alone": alone(first, asked.compared_steps, say)}
    losses = [first.step()["loss"] for _ in range(asked.compared_steps)]
    told["together"] = {"losses": losses, "gradient_norm": engine.gradient_norm}
    _end(first, engine)
    return told


def _end(training: RankTraining, engine: ZeroEngine) -> None:
    training.batches.close()
    engine.close()


def _facts(training: RankTraining, engine: ZeroEngine, asked: ZeroOptions, rank: Rank, backend: str, say: Say) -> Facts:
    facts = training_facts(training, say, engine)
    memory: Estimates = {}
    if asked.stage == 3 and training.spec.point.precision == "bf16":
        reason = "casts of gathered weights cannot be told from activations"
        memory = {"activations_bytes": Estimate.absent(BYTES, reason)}
    placed = rank.with_place(facts, observed(_strategy(engine, asked, backend), "deepspeed, torch.distributed"), memory)
    own = {
        "software.runtime.name": observed("DeepSpeed", "the package"),
        "software.runtime.version": observed(deepspeed.__version__, "deepspeed.__version__"),
    }
    return replace(placed, executor=ExecutorRecord({**placed.executor.facts, **own}))


def _strategy(engine: ZeroEngine, asked: ZeroOptions, backend: str) -> str:
    sized = f"buckets of {asked.bucket_mib:g} MiB" if asked.bucket_mib else "DeepSpeed's own buckets"
    parts = [f"ZeRO {engine.stage()}", sized]
    if engine.is_offloaded():
        parts.insert(1, "optimizer in the host's memory")
    if engine.stage() == 3 and asked.whole_below:
        parts.append(f"whole below {asked.whole_below} elements")
    return ", ".join([*parts, backend])
