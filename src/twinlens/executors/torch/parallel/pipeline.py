"""A decoder cut into stages of consecutive layers, and the schedule that its microbatches go through.

The first stage has the token table, the last one the final norm and the head. torch.distributed.pipelining runs the
schedule; each stage is timed from outside. Needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import pipelining

from twinlens.errors import BadInput
from twinlens.executors.torch.device import between_ns, mark
from twinlens.executors.torch.parallel.entry import stages_each
from twinlens.executors.torch.parallel.options import ParallelOptions

Fill = Callable[[nn.Module], None]
"""Gives what this rank has of a model without memory its weights."""


class Part(nn.Module):  # type: ignore[misc]
    """Consecutive layers of a decoder, `begin` to `end`: token ids or hidden states in, hidden states or scores out."""

    def __init__(self, decoder: nn.Module, head: nn.Module, begin: int, end: int, precision: str) -> None:
        super().__init__()
        self.is_first, self.is_last = begin == 0, end == len(decoder.layers)
        self.is_half = precision == "bf16"
        self.config = decoder.config
        self.decoder = decoder
        decoder.layers = decoder.layers[begin:end]
        if not self.is_first:
            decoder.embed_tokens = None
        if not self.is_last:
            decoder.norm = nn.Identity()
        self.lm_head = head if self.is_last else None

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        with torch.autocast(given.device.type, dtype=torch.bfloat16, enabled=self.is_half):
            asked = {"input_ids": given} if self.is_first else {"inputs_embeds": given}
            hidden: torch.Tensor = self.decoder(**asked, use_cache=False).last_hidden_state
            return hidden if self.lm_head is None else self.lm_head(hidden)


@dataclass(slots=True)
class Spent:
    """Marks at the beginning and end of what a rank computed in one pass through the schedule."""

    forward: list[tuple[Any, Any]] = field(default_factory=list)
    backward: list[tuple[Any, Any]] = field(default_factory=list)

    def forget(self) -> None:
        self.forward.clear()
        self.backward.clear()

    def total_ns(self) -> tuple[int, int]:
        """Forward and backward, once the device has reached the marks."""
        forward, backward = (sum(between_ns(*pair) for pair in pairs) for pairs in (self.forward, self.backward))
        return forward, backward


@contextmanager
def _timed(spans: list[tuple[Any, Any]], device: torch.device) -> Iterator[None]:
    begin = mark(device)
    yield
    spans.append((begin, mark(device)))


class Stage(pipelining.PipelineStage):  # type: ignore[misc]
    """torch's stage, with the time of each microbatch's forward and backward pass; waiting is outside of both."""

    spent: Spent

    def forward_one_chunk(self, *given: Any, **named: Any) -> Any:
        with _timed(self.spent.forward, self.device):
            return super().forward_one_chunk(*given, **named)

    def backward_one_chunk(self, *given: Any, **named: Any) -> Any:
        with _timed(self.spent.backward, self.device):
            return super().backward_one_chunk(*given, **named)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """This rank's stages and the schedule. `model` holds the parameters of all its stages."""

    model: nn.ModuleList
    schedule: Any
    spent: Spent
    is_first: bool
    is_last: bool

    def run(self, inputs: torch.Tensor, targets: torch.Tensor, *, is_training: bool = True) -> list[torch.Tensor]:
        """All microbatches forward, and backward where it trains. Losses of each, on the rank of the last stage."""
        self.spent.forget()
        losses: list[torch.Tensor] = []
        given = (inputs,) if self.is_first else ()
        wanted = {"target": targets, "losses": losses} if self.is_last else {}
        go = self.schedule.step if is_training else self.schedule.eval
        go(*given, **wanted, return_outputs=False)
        return [loss.detach() for loss in losses]

    def alone(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """A number whose gradient passes every stage of this rank on hidden states that stand in for its neighbours':
        what it computes and keeps for one microbatch, with no exchange."""
        total = torch.zeros((), device=inputs.device)
        for part in self.model:
            hidden = torch.ones((*inputs.shape, part.config.hidden_size), device=inputs.device, requires_grad=True)
            out = part(inputs if part.is_first else hidden)
            total = total + (_loss(out, targets) if part.is_last else out.float().mean())
        return total


def pipeline_of(
    model: nn.Module, options: ParallelOptions, device: torch.device, precision: str, microbatches: int, fill: Fill
) -> Pipeline:
    """Raises BadInput (TL202) for a model that is not laid out as a table, layers, a norm and a head."""
    rank, ranks, each = torch.distributed.get_rank(), options.ranks, stages_each(options)
    places = [rank + turn * ranks for turn in range(each)]
    parts = _parts(model, places, ranks * each, precision)
    held = nn.ModuleList(parts)
    fill(held)
    spent = Spent()
    stages = []
    for place, part in zip(places, parts, strict=True):
        stage = Stage(part, place, ranks * each, device)
        stage.spent = spent
        stages.append(stage)

    def loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with _timed(spent.forward, device):
            return _loss(scores, targets)

    kinds = {"1f1b": pipelining.Schedule1F1B, "gpipe": pipelining.ScheduleGPipe}
    if options.schedule == "interleaved":
        schedule: Any = pipelining.ScheduleInterleaved1F1B(stages, microbatches, loss_fn=loss)
    else:
        schedule = kinds[options.schedule](stages[0], microbatches, loss_fn=loss)
    return Pipeline(held, schedule, spent, rank == 0, rank == ranks - 1)


def _loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.float().flatten(0, 1), targets.flatten())


def _parts(model: nn.Module, places: list[int], stages: int, precision: str) -> list[Part]:
    decoder: Any = getattr(model, "model", None)
    head: Any = getattr(model, "lm_head", None)
    if head is None or not all(hasattr(decoder, name) for name in ("embed_tokens", "layers", "norm")):
        raise BadInput(
            "this model is not laid out as a pipeline needs it (model.embed_tokens, layers, norm, lm_head); take "
            '"ddp" or "fsdp2" as executor.options.parallel',
            code="TL202",
        )
    each = len(decoder.layers) // stages
    return [Part(_copy_of(decoder), head, place * each, (place + 1) * each, precision) for place in places]


def _copy_of(decoder: nn.Module) -> nn.Module:
    """The same modules in a new holder, from which some can be taken away."""
    new = decoder.__class__.__new__(decoder.__class__)
    new.__dict__ = dict(decoder.__dict__)
    new._modules = dict(decoder._modules)
    return new
