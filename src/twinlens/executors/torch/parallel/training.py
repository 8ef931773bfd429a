"""One rank's part of training: its share of each batch through its share of the model."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from twinlens.executors.torch.marks import between_ns, mark
from twinlens.executors.torch.model.build import build_model, synchronize
from twinlens.executors.torch.model.data import Batches
from twinlens.executors.torch.options import TorchOptions
from twinlens.executors.torch.parallel.options import ParallelOptions, microbatch_of
from twinlens.executors.torch.parallel.wrap import divide, set_sync
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload


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


class RankTraining:
    """AdamW on this rank's share of the model. `rank` of `options.ranks`; `options_of_torch` are for the evidence."""

    is_vision = False

    def __init__(self, spec: RunSpec, asked: ParallelOptions, rank: int, device: torch.device) -> None:
        assert isinstance(spec.workload, TrainingWorkload)
        self.spec, self.asked, self.workload, self.device = spec, asked, spec.workload, device
        self.options = TorchOptions(attention=asked.attention)
        self.ref = spec.model.known()
        self.microbatch = microbatch_of(spec, asked)
        self.accumulate = self.workload.global_batch // (self.microbatch * asked.data)
        self.data_rank = rank % asked.data if asked.data > 1 else 0
        self.divided = divide(self.whole_model(), asked, device, spec.point.precision)
        self.model: nn.Module = self.divided.model
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=self.workload.learning_rate, **_kernels(asked.parallel)
        )
        self.batches = self.fresh_batches()

    def whole_model(self) -> nn.Module:
        """The undivided model, as every rank makes it: the seed decides its weights."""
        model = build_model(self.ref, self.asked.attention, self.spec.seed, self.device).train()
        if self.workload.checkpointing:
            enable = getattr(model, "activation_checkpointing_enable", None)  # the name from transformers 5.23 on
            (enable or model.gradient_checkpointing_enable)()
        return model

    def all_batches(self) -> Batches:
        """The batches of all ranks together, from their beginning."""
        rows = self.microbatch * self.asked.data
        workload = self.workload
        return Batches(
            workload.data, self.ref, rows, workload.seq_len, self.spec.seed, self.device, workload.global_batch
        )

    def fresh_batches(self) -> ShareOfBatches:
        """This rank's batches, from their beginning."""
        return ShareOfBatches(self.all_batches(), self.microbatch, self.data_rank)

    def compile(self) -> None:
        """Graphs are not compiled here; the evidence asks only where they are."""
        raise NotImplementedError

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of this rank's rows, in nats per token."""
        return self.loss_of(self.divided.forward, inputs, targets)

    def loss_of(self, forward: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with self._autocast():
            logits = forward(input_ids=inputs, use_cache=False).logits.flatten(0, 1)
        return F.cross_entropy(logits.float(), targets.flatten())

    def step(self) -> dict[str, Any]:
        """One optimizer step: times in ns on the monotonic clock, phases in ns, and this rank's mean loss."""
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
            (loss / self.accumulate).backward()
            losses.append(loss.detach())
            marks.append(mark(device))
            waited_ns.append((buckets.last, marks[-1]) if buckets is not None and buckets.last is not None else None)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        marks.append(mark(device))
        synchronize(device)
        loss_value = float(torch.stack(losses).mean())
        end_ns = time.monotonic_ns()
        spent_ns = [between_ns(a, b) for a, b in pairwise(marks)]
        communicate_ns = sum(between_ns(*pair) for pair in waited_ns if pair is not None)
        return {
            "begin_ns": begin_ns,
            "end_ns": end_ns,
            "data_ns": sum(spent_ns[0:-1:3]),
            "forward_ns": sum(spent_ns[1:-1:3]),
            "backward_ns": sum(spent_ns[2:-1:3]) - communicate_ns,
            "communicate_ns": communicate_ns if buckets is not None else None,
            "optimize_ns": spent_ns[-1],
            "loss": loss_value,
        }

    def evaluate(self, batches: int) -> dict[str, Any]:
        """The mean loss of this rank's rows of held-out batches."""
        begin_ns = time.monotonic_ns()
        self.model.eval()
        with torch.no_grad():
            losses = [float(self.loss(*self.batches.held_out(index))) for index in range(batches)]
        self.model.train()
        synchronize(self.device)
        return {"begin_ns": begin_ns, "end_ns": time.monotonic_ns(), "loss": sum(losses) / len(losses)}

    def _autocast(self) -> AbstractContextManager[Any]:
        """fsdp2 has a policy of its own, which gathers weights in the low precision."""
        if self.spec.point.precision != "bf16" or self.asked.parallel == "fsdp2":
            return nullcontext()
        half: AbstractContextManager[Any] = torch.autocast(self.device.type, dtype=torch.bfloat16)
        return half


def _kernels(parallel: str) -> dict[str, bool]:
    """Norms of a tensor-parallel model are plain tensors beside divided ones, which no kernel takes together."""
    return {"foreach": False, "fused": False} if parallel == "tp" else {"fused": True}
