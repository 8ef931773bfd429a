"""The embedded trainer: a real loop on torch and transformers, CPU or CUDA, the same code."""

from __future__ import annotations

import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from twinlens.errors import BadInput
from twinlens.executors.protocol import Say
from twinlens.executors.torch.allocator import keep_freed_memory
from twinlens.executors.torch.evidence.memory import device_memory
from twinlens.executors.torch.evidence.training import training_facts
from twinlens.executors.torch.evidence.work import ceilings_again
from twinlens.executors.torch.fp32 import set_fp32
from twinlens.executors.torch.marks import between_ns, mark
from twinlens.executors.torch.model.build import build_model, choose_device, set_threads, synchronize
from twinlens.executors.torch.model.data import Batches
from twinlens.executors.torch.options import LEAST_GPU, TorchOptions
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.step import Marks
from twinlens.spec.model.reference import DecoderShape, ModelRef
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload

# fp8 too: attention, norms, element-wise work and the head, which torchao leaves alone, would else run in fp32.
_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.bfloat16}


class TorchTrainer:
    """AdamW on the whole model: fp32 weights, gradients and moments; the forward pass in the asked precision."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        assert isinstance(spec.workload, TrainingWorkload)
        self.options = TorchOptions.of(spec.executor.options)
        if self.options.freed_memory == "kept":
            keep_freed_memory()
        self.spec, self.workload = spec, spec.workload
        self.device = choose_device(spec.device)
        refuse_unsupported(spec.point.precision, self.device)
        set_fp32(spec.point.precision)
        self.threads = set_threads(spec.executor.threads)
        self.microbatch = _microbatch(spec)
        self.accumulate = self.workload.global_batch // self.microbatch
        say("building the model")
        self.ref = spec.model.known()
        _refuse_too_long(self.ref, self.workload.seq_len)
        self.model = build_model(self.ref, self.options.attention, spec.seed, self.device).train()
        if self.workload.checkpointing:
            enable = getattr(self.model, "activation_checkpointing_enable", None)  # the name from transformers 5.23 on
            (enable or self.model.gradient_checkpointing_enable)()
        if spec.point.precision == "fp8":
            _refuse_odd_rows(self.microbatch * (self.workload.seq_len if self.ref.shape.family == "decoder" else 1))
            _convert_to_fp8(self.model)
        self.is_vision = self.ref.shape.family != "decoder"
        self.batches = Batches(
            self.workload.data,
            self.ref,
            self.microbatch,
            self.workload.seq_len,
            spec.seed,
            self.device,
            self.workload.global_batch,
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.workload.learning_rate, fused=True)
        self._scaler = torch.amp.GradScaler(self.device.type, enabled=spec.point.precision == "fp16")
        self._forward = self.model
        facts = training_facts(self, say)
        self.optimizer.state.clear()  # the evidence step had a learning rate of 0: only its moments would remain
        self._steps = self._looked_at = 0
        self._origin_ns: int | None = None
        return facts

    def step(self) -> Marks:
        if self._origin_ns is None:
            self._origin_ns = time.monotonic_ns()
        target = self.workload.until
        if target and self._steps % target.every_steps == 0 and self._steps != self._looked_at:
            self._looked_at = self._steps
            return self._evaluate(target.batches)
        self._steps += 1
        return self._optimize(self._origin_ns)

    def close(self) -> None:
        if batches := getattr(self, "batches", None):
            batches.close()

    def compile(self) -> None:
        """From here on the forward pass is torch's compiled graph; it is made when it is first called."""
        self._forward = torch.compile(self.model)

    def device_memory(self) -> dict[str, int] | None:
        """The allocator's peak over the rows, in bytes; None on a CPU."""
        return device_memory(self.device)

    def ceilings_again(self) -> Estimates:
        """The matrix rate once more."""
        return ceilings_again(self.spec, self.device)

    def save(self, folder: Path) -> None:
        """Write the weights as a Hugging Face folder (config.json and safetensors)."""
        self.model.save_pretrained(folder, safe_serialization=True)

    def _optimize(self, origin_ns: int) -> Marks:
        now, device, batches = time.monotonic_ns, self.device, self.batches
        marks, losses = [], []
        begin_ns = now()
        marks.append(mark(device))
        for _ in range(self.accumulate):
            inputs, targets = batches.next()
            marks.append(mark(device))
            loss = self.loss(inputs, targets)
            marks.append(mark(device))
            self._scaler.scale(loss / self.accumulate).backward()
            losses.append(loss.detach())
            marks.append(mark(device))
        scale = self._scaler.get_scale() if self._scaler.is_enabled() else 0.0
        self._scaler.step(self.optimizer)
        self._scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        marks.append(mark(device))
        synchronize(device)  # once a step: the processor may run ahead within it, as it does in anybody's loop
        loss_value = float(torch.stack(losses).mean())
        spent_ns = [between_ns(a, b) for a, b in pairwise(marks)]
        return Marks(
            begin_ns - origin_ns,
            now() - origin_ns,
            samples=self.workload.global_batch,
            tokens=0 if self.is_vision else self.workload.global_batch * self.workload.seq_len,
            loss=loss_value,
            data_ns=sum(spent_ns[0:-1:3]),
            forward_ns=sum(spent_ns[1:-1:3]),
            backward_ns=sum(spent_ns[2:-1:3]),
            optimize_ns=spent_ns[-1],
            tag="skipped" if scale and self._scaler.get_scale() < scale else None,
        )

    def _evaluate(self, batches: int) -> Marks:
        assert self._origin_ns is not None
        begin_ns = time.monotonic_ns()
        self.model.eval()  # no dropout, and the running statistics of a normalisation rather than this batch's
        with torch.no_grad():
            losses = [float(self.loss(*self.batches.held_out(index))) for index in range(batches)]
        self.model.train()
        synchronize(self.device)
        rows = batches * self.microbatch
        return Marks(
            begin_ns - self._origin_ns,
            time.monotonic_ns() - self._origin_ns,
            samples=rows,
            tokens=0 if self.is_vision else rows * self.workload.seq_len,
            loss=sum(losses) / len(losses),
            kind="evaluate",
        )

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy in nats: per token, or per image."""
        with self._autocast():
            if self.is_vision:
                logits = self._forward(pixel_values=inputs).logits
            else:
                logits = self._forward(input_ids=inputs, use_cache=False).logits.flatten(0, 1)
        return F.cross_entropy(logits.float(), targets.flatten())

    def _autocast(self) -> AbstractContextManager[Any]:
        half = _AUTOCAST.get(self.spec.point.precision)
        return torch.autocast(self.device.type, dtype=half) if half else nullcontext()


def refuse_unsupported(name: str, device: torch.device) -> None:
    """Raises BadInput for a precision this device cannot run at all."""
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else (0, 0)
    needs = LEAST_GPU.get(name)
    if needs and capability < needs:
        here = "the CPU" if device.type == "cpu" else f"a GPU of compute capability {capability[0]}.{capability[1]}"
        raise BadInput(
            f"precision {name!r} needs an NVIDIA GPU of compute capability {needs[0]}.{needs[1]} or later; "
            f"this is {here}",
            code="TL203",
        )


def _microbatch(spec: RunSpec) -> int:
    assert isinstance(spec.workload, TrainingWorkload)
    asked = spec.point.microbatch or spec.workload.global_batch
    if spec.workload.global_batch % asked:
        raise BadInput(
            f"point.microbatch {asked} does not divide workload.global_batch {spec.workload.global_batch}",
            code="TL202",
        )
    return asked


def _refuse_too_long(ref: ModelRef, seq_len: int) -> None:
    if isinstance(ref.shape, DecoderShape) and seq_len > ref.shape.max_context:
        raise BadInput(
            f"workload.seq_len is {seq_len}, the model's context ends at {ref.shape.max_context}", code="TL202"
        )


def _refuse_odd_rows(rows: int) -> None:
    """The gradient of a weight is a product over rows, and the fp8 kernel wants those in sixteens too."""
    if rows % 16:
        raise BadInput(
            f"fp8 training has {rows} tokens a microbatch, which do not divide by 16; change point.microbatch or "
            "workload.seq_len",
            code="TL202",
        )


def _convert_to_fp8(model: nn.Module) -> None:
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    except ImportError:
        raise BadInput("training in fp8 needs torchao: pip install 'twinlens[fp8]'", code="TL203") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        convert_to_float8_training(
            model, config=Float8LinearConfig.from_recipe_name("rowwise"), module_filter_fn=_can_be_fp8
        )


def _can_be_fp8(module: nn.Module, name: str) -> bool:
    """Linear layers but the output head, where both widths divide by 16 as the kernel wants."""
    if "lm_head" in name or not isinstance(module, nn.Linear):
        return False
    return bool(module.in_features % 16 == 0 and module.out_features % 16 == 0)
