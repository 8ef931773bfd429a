"""DeepSpeed's engine in the place of torch's backward pass and update: how it is asked for, what it holds, and how
a run is opened with it.

Needs deepspeed, and a process group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from torch import nn

from twinlens.executors.protocol import Say
from twinlens.executors.torch.deepspeed.entry import ZeroOptions, config_of
from twinlens.executors.torch.evidence.memory import Resident, bytes_of, forget_peak, formats_of
from twinlens.executors.torch.evidence.training import training_facts
from twinlens.executors.torch.model.without_memory import fill_each
from twinlens.executors.torch.parallel.entry import compared_model, twin_numbers, with_model
from twinlens.executors.torch.parallel.one_process import alone, gradient_norm
from twinlens.executors.torch.parallel.rank import Rank
from twinlens.executors.torch.parallel.training import RankTraining
from twinlens.executors.torch.parallel.wrap import Divided
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.study import RunSpec
from twinlens.units import BYTES


def divided_by(asked: ZeroOptions, say: Say = lambda phrase: None) -> Any:
    """Divides a model as `asked`, for `RankTraining`."""

    def divide(training: RankTraining) -> Divided:
        model = _partitioned(asked, training, say) if asked.stage == 3 else training.own_copy(say)
        engine = ZeroEngine(model, asked, training)
        return Divided(model, engine.forward, dist.get_rank(), engine=engine)

    return divide


class ZeroEngine:
    """One engine and what it took over."""

    def __init__(self, model: nn.Module, asked: ZeroOptions, training: RankTraining) -> None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=training.workload.learning_rate, fused=True)
        config = _config_of(asked, training)
        self._model = model
        self.forward, self._optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
        self._held: Held | None = None
        self.gradient_norm: float | None = None
        self.set_last(True)

    @property
    def optimizer(self) -> Any:
        """DeepSpeed's own, around torch's AdamW."""
        return self._optimizer

    def set_last(self, is_last: bool) -> None:
        self._is_last = is_last
        self.forward.set_gradient_accumulation_boundary(is_last)

    def backward(self, loss: torch.Tensor) -> None:
        """It divides the loss by the microbatches of a step itself."""
        self.forward.backward(loss)
        if not self._is_last:
            self.forward.step()

    def update(self) -> None:
        if self._held is not None:
            self._held.note_gradients()
        whole = (
            gradient_norm(self._model) if self.gradient_norm is None else 0.0
        )  # of stage 0 there is none but in the weights
        self.forward.step()
        if self.gradient_norm is None:
            told = self.forward.get_global_grad_norm() if self.forward.zero_optimization_stage() else None
            self.gradient_norm = whole if told is None else float(told)

    def watch(self) -> None:
        """From here on count what is held; this costs time, so that no row is taken with it."""
        self._held = held_by(self.forward)

    def held(self) -> tuple[Estimates, Resident]:
        assert self._held is not None
        return self._held.memory(), self._held.formats()

    def stage(self) -> int:
        """The stage that really runs."""
        return int(self.forward.zero_optimization_stage())

    def is_offloaded(self) -> bool:
        """Whether the optimizer really is in the host's memory."""
        offload = self.forward.zero_offload_optimizer()
        return offload is not None and str(getattr(offload.device, "value", offload.device)) == "cpu"

    def close(self) -> None:
        """Release what it holds: DeepSpeed's own `destroy` leaves stage 3's partitions where they are."""
        self.forward.destroy()
        vars(self._optimizer).clear()


def _config_of(asked: ZeroOptions, training: RankTraining) -> dict[str, Any]:
    return config_of(asked, training.spec.point.precision, training.microbatch, training.accumulate)


def _partitioned(asked: ZeroOptions, training: RankTraining, say: Say) -> nn.Module:
    """The model in partitions of stage 3, made module by module, so that no rank ever holds it whole."""
    config = _config_of(asked, training)
    model, recipe = training.bare_model()

    def keep_part(module: nn.Module) -> None:
        deepspeed.zero.Init(module=module, config_dict_or_path=config)

    fill_each(recipe, keep_part, say)
    return model


_MASTERS = ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups")
"""Attributes of DeepSpeed 0.19 that hold the fp32 weights which the optimizer updates, by stage: 1 and 2, 3, 0."""
_GRADIENTS = ("averaged_gradients", "grad_partitions_flat_buffer")
"""Of stages 1 and 2, and of stage 3: this rank's part of the gradients."""


def held_by(engine: Any) -> Held:
    """Counts from here on; gradients are watched at every parameter."""
    return Held(engine)


class Held:
    """What one engine holds. Gradients are those of the latest backward pass, counted before the update frees them."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._optimizer = engine, engine.optimizer
        self._parameters = list(engine.module.parameters())
        self._gradients: list[torch.Tensor] = []
        self._gradient_bytes = self._most = 0
        for parameter in self._parameters:
            parameter.register_post_accumulate_grad_hook(self._note_most)

    def note_gradients(self) -> None:
        """Before an update: stages 0 and 1 have held every gradient whole, 2 and 3 end with this rank's part."""
        parts = list(_tensors(getattr(self._optimizer, name, None) for name in _GRADIENTS))
        self._gradients = parts or [p.grad for p in self._parameters if p.grad is not None]
        self._gradient_bytes = int(bytes_of(self._gradients, "").value or 0)
        if self._engine.zero_optimization_stage() < 2:
            self._gradient_bytes = max(self._gradient_bytes, self._most)

    def memory(self) -> Estimates:
        """Bytes of this rank, in whatever memory they lie."""
        offloaded = self._engine.zero_offload_optimizer() is not None
        where = ", in the host's memory" if offloaded else ""
        held = {
            "weights_bytes": bytes_of([*self._weights(), *self._engine.module.buffers()], "resident weights"),
            "optimizer_bytes": bytes_of(list(self._states()), f"resident optimizer state{where}"),
        }
        if masters := self._masters():
            held["master_bytes"] = bytes_of(masters, f"resident fp32 weights of the optimizer{where}")
        method = "gradients held at the most in a backward pass"
        counted = Estimate(float(self._gradient_bytes), BYTES, method, "measured", n=1)
        if offloaded:
            counted = Estimate.absent(BYTES, "offload keeps gradients in several buffers of the host")
        elif not self._gradient_bytes:
            counted = Estimate.absent(BYTES, "no gradient was seen where this DeepSpeed keeps them")
        return held | {"gradients_bytes": counted}

    def formats(self) -> Resident:
        """Of each tensor class that can be seen."""
        masters = self._masters() or list(self._weights())
        seen = {
            "weights": self._weights(),
            "master": masters,
            "gradients": self._gradients,
            "optimizer": [state for state in self._states() if state.ndim],
        }
        return {name: formats for name, tensors in seen.items() if (formats := formats_of(tensors))}

    def _note_most(self, _: torch.Tensor) -> None:
        self._most = max(self._most, sum(p.grad.nbytes for p in self._parameters if p.grad is not None))

    def _weights(self) -> Iterator[torch.Tensor]:
        """Of stage 3, this rank's part of each."""
        for parameter in self._parameters:
            yield getattr(parameter, "ds_tensor", parameter)

    def _masters(self) -> list[torch.Tensor]:
        """Empty where the optimizer updates the weights themselves."""
        return list(_tensors(getattr(self._optimizer, name, None) for name in _MASTERS))

    def _states(self) -> Iterator[torch.Tensor]:
        inner = getattr(self._optimizer, "optimizer", self._optimizer)
        yield from _tensors(inner.state.values())


def _tensors(nested: Any) -> Iterator[torch.Tensor]:
    """All tensors in lists, mappings and what is lazily made of them."""
    if isinstance(nested, torch.Tensor):
        yield nested
    elif isinstance(nested, dict):
        yield from _tensors(nested.values())
    elif isinstance(nested, Iterable) and not isinstance(nested, str):
        for each in nested:
            yield from _tensors(each)


# A run is opened with an engine to compare and to look at, then with the one that the rows are taken with.

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
