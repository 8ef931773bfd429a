"""The parts of a trainer and of a server that evidence is taken on, so that neither has to be imported here."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

from twinlens.executors.torch.evidence.resident import Resident
from twinlens.executors.torch.options import TorchOptions
from twinlens.record.executor.facts import Estimates
from twinlens.record.finding import Finding
from twinlens.spec.model.any_model import Model
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload


class TrainingBatches(Protocol):
    """Training data: `how` says in words how batches are made."""

    how: str

    @property
    def entropy_rate_nats(self) -> float | None: ...
    def held_out(self, index: int) -> tuple[torch.Tensor, torch.Tensor]: ...


class PromptSource(Protocol):
    """Prompts as a tensor (batch, length) of token ids, one row for each seed."""

    def batch(self, seeds: Any, length: int) -> torch.Tensor: ...


class GenerationLoop(Protocol):
    """Prefill and decode over one static cache; `decode_eager` is the same step without a compiled graph."""

    cache: Any

    def prefill(self, prompts: torch.Tensor) -> torch.Tensor: ...
    def decode(self, newest: torch.Tensor, position: torch.Tensor) -> torch.Tensor: ...
    def decode_eager(self, newest: torch.Tensor, position: torch.Tensor) -> torch.Tensor: ...
    def rewind(self, tokens: int) -> None: ...
    def cache_tensors(self) -> list[torch.Tensor]: ...


class OpenTrainer(Protocol):
    """An open trainer: model and optimizer are made, no step was taken."""

    spec: RunSpec
    options: TorchOptions
    workload: TrainingWorkload
    device: torch.device
    model: nn.Module
    optimizer: torch.optim.Optimizer
    accumulate: int
    is_vision: bool

    @property
    def ref(self) -> Model: ...
    @property
    def batches(self) -> TrainingBatches: ...
    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor: ...
    def compile(self) -> None: ...


class Engine(Protocol):
    """An engine that has taken over the backward pass and the update of a trainer, and divides what it holds."""

    @property
    def optimizer(self) -> torch.optim.Optimizer: ...
    def set_last(self, is_last: bool) -> None:
        """Whether the next forward and backward pass is the last of its step: an update follows it."""
        ...

    def backward(self, loss: torch.Tensor) -> None: ...
    def update(self) -> None: ...
    def held(self) -> tuple[Estimates, Resident]:
        """Bytes by category, and by format of each tensor class, as they were in the latest step."""
        ...


class OpenServer(Protocol):
    """An open server: the model is in its precision. `generation` and `prompts` for a decoder, `images` for vision."""

    spec: RunSpec
    options: TorchOptions
    device: torch.device
    model: nn.Module
    dtype: torch.dtype
    made_in: torch.dtype
    layout: str
    findings: list[Finding]
    is_vision: bool
    images: torch.Tensor
    forward: Any

    @property
    def ref(self) -> Model: ...
    @property
    def generation(self) -> GenerationLoop | None: ...
    @property
    def prompts(self) -> PromptSource: ...
    def no_grad(self) -> Any: ...
