"""A model and an optimizer of torch while they are watched: their hooks, and what they are. Needs torch."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from twinlens.errors import BadInput
from twinlens.executors.own_loop.step_log import HostMoments, Moments, StepLog
from twinlens.executors.torch.evidence.flop import ProfiledWork, profiled_work
from twinlens.executors.torch.evidence.trace import Kernel, kernels_of
from twinlens.executors.torch.evidence.work import ceilings_of_run
from twinlens.executors.torch.model.build import linear_shapes
from twinlens.executors.torch.own_loop.evidence import (
    Seen,
    boards_of,
    device_of,
    parameter_count,
    ranks_of_layers,
    torch_facts,
    work_of_pass,
)
from twinlens.executors.torch.own_loop.hooks import Guard, ModelHooks, OptimizerHooks, core_of, innermost
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.spec.precision import Precision
from twinlens.spec.study import RunSpec


class TorchSide:
    """Raises BadInput (TL222) for what is no model or no optimizer of torch."""

    def __init__(self, model: Any, optimizer: Any, *, profile: bool) -> None:
        inner = innermost(optimizer)
        if not isinstance(model, nn.Module) or inner is None:
            wrong = model if not isinstance(model, nn.Module) else optimizer
            raise BadInput(
                f"tl.watch takes a torch.nn.Module and its optimizer, and was given a {type(wrong).__name__}; "
                "without torch, leave both out and say `with run.step(…)`",
                code="TL222",
            )
        if inner is optimizer and not _shares(inner, model):
            raise BadInput(
                "the optimizer given to tl.watch updates no parameter of the model, so its steps are not the model's; "
                "give the optimizer of this model",
                code="TL222",
            )
        self._model, self._optimizer, self._core = model, inner, core_of(model)
        self.device = device_of(model)
        self.moments = moments_of(self.device)
        self._kernels = EarlyKernels(self.device) if profile else None
        self._examines = profile
        self._hooks: list[ModelHooks | OptimizerHooks] = []

    @property
    def name(self) -> str:
        """The class of the model, without what wraps it."""
        return type(self._core).__name__

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The Hugging Face config, where it has one."""
        to_dict = getattr(getattr(self._core, "config", None), "to_dict", None)
        return to_dict() if to_dict is not None else None

    @property
    def parameters(self) -> int:
        return parameter_count(self._core)

    @property
    def gpus(self) -> tuple[str, ...] | None:
        """UUIDs of the GPUs that the model is on, and a word for each that other ranks have of its layers, so that one
        board's counter is not read as theirs; None on a processor."""
        own = tuple(f"GPU-{torch.cuda.get_device_properties(board).uuid}" for board in boards_of(self._core))
        return (*own, *["of another rank"] * (ranks_of_layers(self._core) - 1)) if own else None

    @property
    def ranks_of_layers(self) -> int:
        """Ranks that compute each of its layers together: 1 but for tensor parallelism."""
        return ranks_of_layers(self._core)

    @property
    def is_seen(self) -> bool:
        """Whether evidence is complete: the pass that is profiled lies behind."""
        return self._kernels is None or self._kernels.is_over

    def attach(self, log: StepLog, guard: Guard, after_step: Callable[[], None], *, events: bool) -> None:
        """Put the hooks there. `events`: forward and backward are told by callbacks, so the model needs none."""
        if not events:
            before, after = self.pass_begins(log), self.pass_ended
            self._hooks.append(ModelHooks(self._model, log, guard, before, after))

        def stepped() -> None:
            self.pass_ended()
            after_step()

        self._hooks.append(OptimizerHooks(self._optimizer, log, guard, stepped))

    def pass_begins(self, log: StepLog) -> Callable[[], None]:
        """To be called before each forward pass."""

        def begins() -> None:
            if self._examines and self._kernels is not None:
                if self._kernels.begin_pass():
                    log.examined()
                self._examines = not self._kernels.is_over

        return begins

    def pass_ended(self) -> None:
        """To be called after each backward pass."""
        if self._examines and self._kernels is not None:
            self._kernels.end_pass()
            self._examines = not self._kernels.is_over

    def detach(self) -> None:
        """Take all hooks away."""
        for hooks in self._hooks:
            hooks.remove()
        self._hooks = []
        self.pass_ended()

    def ceilings(self, spec: RunSpec, regime: Precision, rows: int) -> Estimates:
        """Rates of this device in this precision, at the model's own shapes for so many rows of activations.

        Of a model on several boards, as many times those of the first.
        """
        shapes = [(rows, out, width) for out, width in linear_shapes(self._core)]
        found = ceilings_of_run(spec, self.device, regime, [], shapes, None)
        count = len(boards_of(self._core))
        return found if count < 2 else {name: _times(each, count) for name, each in found.items()}

    def facts(self, said: str | None, passes: int) -> tuple[Precision, Facts]:
        """The precision that was found or said, and all that torch says now."""
        compiled = "_orig_mod" in self._model._modules or self._core._compiled_call_impl is not None
        seen = Seen(self._core, self._optimizer, self.device, passes, compiled)
        kernels = self._kernels.seen if self._kernels else ()
        missing = self._kernels.missing if self._kernels else "tl.watch(profile=False): no pass was profiled"
        regime, facts = torch_facts(seen, said, kernels, missing)
        work = self._kernels.work if self._kernels else None
        return regime, replace(facts, work={**facts.work, **work_of_pass(seen, work, facts.memory)})


def _shares(optimizer: torch.optim.Optimizer, model: nn.Module) -> bool:
    """Whether a plain optimizer updates a parameter of the model. Those that shard hold tensors of their own."""
    own = {id(parameter) for parameter in model.parameters()}
    return not own or any(id(each) in own for group in optimizer.param_groups for each in group["params"])


def rank_and_ranks() -> tuple[int, int]:
    """This process's rank, and how many there are, where torch.distributed is up."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_rank()), int(torch.distributed.get_world_size())
    return 0, 1


def _times(one: Estimate, boards: int) -> Estimate:
    """A rate of so many boards like the one that was measured."""
    ends = {name: None if (end := getattr(one, name)) is None else boards * end for name in ("value", "low", "high")}
    return replace(one, **ends, method=f"{boards} boards × {one.method}")  # type: ignore[arg-type]


_PASS = 2  # the first is full of what happens once


class EarlyKernels:
    """Profiles the second forward and backward pass, and says in `missing` why nothing was seen."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._passes = device, 0
        self._open: Any = None
        self.seen: tuple[Kernel, ...] = ()
        self.work: ProfiledWork | None = None
        self.missing = "no second pass was seen"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be seen."""
        return self._passes > _PASS or (self._passes == _PASS and self._open is None)

    def begin_pass(self) -> bool:
        """Before a forward pass; whether this one is profiled, which slows it."""
        self.end_pass()  # of a pass whose backward was not seen
        self._passes += 1
        if self._passes != _PASS:
            return False
        if torch.autograd._profiler_enabled():
            self.missing = "the loop has a profiler of its own, and there can be only one"
            return False
        on_gpu = self._device.type == "cuda"
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
        self._open = profile(activities=activities, record_shapes=True)
        self._open.__enter__()
        return True

    def end_pass(self) -> None:
        """After a backward pass, or when the loop ends."""
        if self._open is None:
            return
        on_gpu = self._device.type == "cuda"
        if on_gpu:
            torch.cuda.synchronize(self._device)
        opened, self._open = self._open, None
        opened.__exit__(None, None, None)
        events = opened.events() or ()
        self.seen = kernels_of(events, on_gpu=on_gpu)
        with contextlib.suppress(Exception):  # an operator of another version: its shapes are then not counted
            self.work = profiled_work(events)
        self.missing = ""


class StreamMoments:
    """Events on the current stream of one CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def now(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def between_ns(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> int:
        apart_ms: float = begin.elapsed_time(end)
        return round(apart_ms * 1e6)

    def is_reached(self, moment: torch.cuda.Event) -> bool:
        return bool(moment.query())

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)

    def anchor(self) -> tuple[torch.cuda.Event, int]:
        self.wait()
        event = self.now()
        self.wait()
        return event, time.monotonic_ns()


def moments_of(device: torch.device) -> Moments:
    """Events for a CUDA device, the processor's clock for any other."""
    return StreamMoments(device) if device.type == "cuda" else HostMoments()
