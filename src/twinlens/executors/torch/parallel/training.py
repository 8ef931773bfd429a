"""One rank's part of training: its share of each batch through its share of the model."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from twinlens.executors.protocol import Say
from twinlens.executors.torch.device import between_ns, mark, phases_of
from twinlens.executors.torch.entry import TorchOptions
from twinlens.executors.torch.model.build import build_model, recompute_activations, synchronize
from twinlens.executors.torch.model.data import Batches
from twinlens.executors.torch.model.without_memory import Recipe, bare_model, fill
from twinlens.executors.torch.parallel.entry import microbatch_of
from twinlens.executors.torch.parallel.options import SHARDED
from twinlens.executors.torch.parallel.pipeline import Pipeline
from twinlens.executors.torch.parallel.wrap import Divided, divide, set_sync
from twinlens.executors.torch.saver import Saver, go_on_from
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload

DividedBy = Callable[["RankTraining"], Divided]
"""Makes and divides the model of a training whose batches are known."""


class RankTraining:
    """AdamW on this rank's share of the model. `options` are those of one process, for the evidence."""

    is_vision = False

    def __init__(
        self,
        spec: RunSpec,
        asked: Any,
        device: torch.device,
        divided_by: DividedBy | None = None,
        say: Say = lambda phrase: None,
    ) -> None:
        """`divided_by`: another stack's way to divide the model, in the place of torch's."""
        assert isinstance(spec.workload, TrainingWorkload)
        self.spec, self.asked, self.workload, self.device = spec, asked, spec.workload, device
        self.options = TorchOptions(attention=asked.attention)
        self.ref = spec.model.known()
        self.microbatch = microbatch_of(spec, asked)
        self.accumulate = self.workload.global_batch // (self.microbatch * asked.data)
        self.divided = divided_by(self) if divided_by else self._divided(say)
        self.model: nn.Module = self.divided.model
        self.optimizer: torch.optim.Optimizer = (
            self.divided.engine.optimizer
            if self.divided.engine is not None
            else torch.optim.AdamW(_alike(self.model), lr=self.workload.learning_rate, fused=True)
        )
        self.batches = self.fresh_batches()

    def whole_model(self) -> nn.Module:
        """The undivided model, as every rank makes it: the seed decides its weights."""
        return self._ready(build_model(self.ref, self.asked.attention, self.spec.seed, self.device))

    def _divided(self, say: Say) -> Divided:
        """A copy for each rank of DDP; else a model without memory that is divided before it is filled, so that no
        board ever holds the whole one."""
        given = self.asked, self.device, self.spec.point.precision, self.accumulate
        if self.asked.parallel == "ddp":
            return divide(self.own_copy(say), *given, fill=lambda whole: None)
        bare, recipe = self.bare_model()
        return divide(bare, *given, fill=lambda part: fill(part, recipe, say))

    def own_copy(self, say: Say) -> nn.Module:
        """The undivided model on each of all ranks together; one of them reads the weights of a folder."""
        if self.ref.folder is None:
            return self.whole_model()
        bare, recipe = self.bare_model()
        fill(bare, recipe, say)
        return bare

    def bare_model(self) -> tuple[nn.Module, Recipe]:
        """The undivided model without memory, and how it is filled."""
        bare, recipe = bare_model(self.ref, self.asked.attention, self.spec.seed, self.device)
        return self._ready(bare), recipe

    def _ready(self, model: nn.Module) -> nn.Module:
        if self.workload.checkpointing:
            recompute_activations(model)
        return model.train()

    def all_batches(self) -> Batches:
        """The batches of all ranks together, from their beginning."""
        rows = self.microbatch * self.asked.data
        workload = self.workload
        return Batches(
            workload.data, self.ref, rows, workload.seq_len, self.spec.seed, self.device, workload.global_batch
        )

    def fresh_batches(self) -> ShareOfBatches:
        """This rank's batches, from their beginning."""
        return ShareOfBatches(self.all_batches(), self.microbatch, self.divided.data_rank)

    def compile(self) -> None:
        """Graphs are not compiled here; the evidence asks only where they are."""
        raise NotImplementedError

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of this rank's rows, in nats per token; in a pipeline, a number of its stages alone."""
        if self.divided.pipeline is not None:
            return self.divided.pipeline.alone(inputs, targets)
        return self.loss_of(self.divided.forward, inputs, targets)

    def loss_of(self, forward: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with self._autocast():
            logits = forward(input_ids=inputs, use_cache=False).logits.flatten(0, 1)
        return F.cross_entropy(logits.float(), targets.flatten())

    def step(self) -> dict[str, Any]:
        """One optimizer step: times in ns on the monotonic clock, phases in ns, and this rank's mean loss."""
        if self.divided.pipeline is not None:
            return self._step_through(self.divided.pipeline)
        device, buckets = self.device, self.divided.buckets
        begin_ns = time.monotonic_ns()
        marks, losses, waited_ns = [mark(device)], [], []
        for index in range(self.accumulate):
            inputs, targets = self.batches.next()
            marks.append(mark(device))
            set_sync(self.divided, index == self.accumulate - 1)
            if buckets is not None:
                buckets.forget()
            loss = self.loss(inputs, targets)
            marks.append(mark(device))
            self.backward(loss)
            losses.append(loss.detach())
            marks.append(mark(device))
            waited_ns.append((buckets.last, marks[-1]) if buckets is not None and buckets.last is not None else None)
        self.update()
        marks.append(mark(device))
        synchronize(device)
        loss_value = float(torch.stack(losses).mean())
        end_ns = time.monotonic_ns()
        spent = phases_of(marks)
        communicate_ns = sum(between_ns(*pair) for pair in waited_ns if pair is not None)
        return {
            "begin_ns": begin_ns,
            "end_ns": end_ns,
            **spent,
            "backward_ns": spent["backward_ns"] - communicate_ns,
            "communicate_ns": communicate_ns if buckets is not None else None,
            "loss": loss_value,
        }

    def _step_through(self, pipeline: Pipeline) -> dict[str, Any]:
        """The same through a pipeline: what its stages compute is known, and the loss on the last rank alone."""
        begin_ns = time.monotonic_ns()
        marks = [mark(self.device)]
        inputs, targets = self._whole_batch()
        marks.append(mark(self.device))
        losses = pipeline.run(inputs, targets)
        marks.append(mark(self.device))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        marks.append(mark(self.device))
        synchronize(self.device)
        forward_ns, backward_ns = pipeline.spent.total_ns()
        return {
            "begin_ns": begin_ns,
            "end_ns": time.monotonic_ns(),
            "data_ns": between_ns(*marks[:2]),
            "forward_ns": forward_ns,
            "backward_ns": backward_ns,
            "communicate_ns": None,
            "optimize_ns": between_ns(*marks[2:]),
            "loss": float(torch.stack(losses).mean()) if losses else None,
        }

    def _whole_batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        drawn = [self.batches.next() for _ in range(self.accumulate)]
        return torch.cat([inputs for inputs, _ in drawn]), torch.cat([targets for _, targets in drawn])

    def backward(self, loss: torch.Tensor) -> None:
        """The backward pass of one microbatch of a step."""
        if self.divided.engine is None:
            (loss / self.accumulate).backward()
        else:
            self.divided.engine.backward(loss)

    def update(self) -> None:
        """The optimizer's update; afterwards there are no gradients."""
        if self.divided.engine is not None:
            self.divided.engine.update()
            return
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def evaluate(self, batches: int) -> dict[str, Any]:
        """The mean loss of this rank's rows of held-out batches; None on a rank that has none."""
        begin_ns = time.monotonic_ns()
        self.model.eval()
        with torch.no_grad():
            losses = [each for index in range(batches) for each in self._looked(*self.batches.held_out(index))]
        self.model.train()
        synchronize(self.device)
        mean = sum(losses) / len(losses) if losses else None
        return {"begin_ns": begin_ns, "end_ns": time.monotonic_ns(), "loss": mean}

    def _looked(self, inputs: torch.Tensor, targets: torch.Tensor) -> list[float]:
        if (pipeline := self.divided.pipeline) is None:
            return [float(self.loss(inputs, targets))]
        # The schedule takes as many microbatches as a step has: the same one, over and over.
        many = (self.accumulate, *[1] * (inputs.dim() - 1))
        return [float(each) for each in pipeline.run(inputs.repeat(many), targets.repeat(many), is_training=False)][:1]

    def _autocast(self) -> AbstractContextManager[Any]:
        """Sharding has a policy of its own, which gathers weights in the low precision."""
        if self.spec.point.precision != "bf16" or self.asked.parallel in SHARDED:
            return nullcontext()
        half: AbstractContextManager[Any] = torch.autocast(self.device.type, dtype=torch.bfloat16)
        return half


def _alike(model: nn.Module) -> list[dict[str, Any]]:
    """Parameters in groups that one kernel takes: those of tensor parallelism are plain ones beside divided ones."""
    groups: dict[Any, list[nn.Parameter]] = {}
    for each in model.parameters():
        groups.setdefault((type(each), getattr(each, "device_mesh", None)), []).append(each)
    return [{"params": alike} for alike in groups.values()]


class ShareOfBatches:
    """The rows of each global microbatch that one data rank has: every rank draws the same, and takes its own."""

    def __init__(self, batches: Batches, rows: int, rank: int) -> None:
        self._batches, self._mine = batches, slice(rank * rows, (rank + 1) * rows)
        self.how = f"{batches.how}, each rank drawing the whole batch"
        self.entropy_rate_nats = batches.entropy_rate_nats

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = self._batches.next()
        return inputs[self._mine], targets[self._mine]

    def held_out(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = self._batches.held_out(index)
        return inputs[self._mine], targets[self._mine]

    def close(self) -> None:
        self._batches.close()


# One rank's part of saves: written after a step, read back, and the place in the data found again.


class RankSaves:
    """Made by all ranks in the same order: the process group of background saves is."""

    def __init__(self, training: RankTraining, mode: str) -> None:
        self._training, self._saver = training, Saver(training.model, training.optimizer, mode)

    def step(self, order: dict[str, Any]) -> dict[str, Any]:
        """A step, and the save that the order may ask for after it."""
        is_writing = self._saver.is_writing
        told = self._training.step() | {"is_writing": is_writing}
        if "save" in order:
            drop = [Path(each) for each in order["drop"]] if dist.get_rank() == 0 else []
            told["saved"] = self._saver.save(order["step"], Path(order["save"]), drop)
        return told | {"durable_ns": self._saver.durable_ns}

    def settle(self) -> dict[int, int]:
        """Wait for what is being written; when each save was on storage, by step."""
        self._saver.settle()
        return self._saver.durable_ns

    def load(self, folder: str) -> float:
        """Seconds."""
        return self._saver.load(Path(folder))

    def go_on_from(self, step: int) -> None:
        """Let the next batch be that of the step after `step`."""
        go_on_from(self._training, step)
