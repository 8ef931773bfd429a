"""The embedded trainer: a real loop on torch and transformers, CPU or CUDA, the same code."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from twinlens.errors import BadInput
from twinlens.executors.protocol import Say
from twinlens.executors.torch.device import choose_device, keep_freed_memory, mark, phases_of, set_fp32
from twinlens.executors.torch.entry import LEAST_GPU, TorchOptions
from twinlens.executors.torch.evidence.memory import device_memory
from twinlens.executors.torch.evidence.training import training_facts
from twinlens.executors.torch.evidence.work import ceilings_again
from twinlens.executors.torch.model.adapter import trained_parameters, with_adapter
from twinlens.executors.torch.model.build import build_model, recompute_activations, set_threads, synchronize
from twinlens.executors.torch.model.data import Batches, FolderBatches
from twinlens.executors.torch.model.folder import save_with_tokenizer
from twinlens.executors.torch.model.quantize import cast, convert_to_fp8, refuse_odd_rows
from twinlens.executors.torch.saver import OneProcessSaves
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.sections import Checkpoints
from twinlens.record.step import Marks
from twinlens.spec.model.any_model import Model, is_text
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Folder, TrainingWorkload

_HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
# fp8 too: attention, norms, element-wise work and the head, which torchao leaves alone, would else run in fp32.
_AUTOCAST = _HALF | {"fp8": torch.bfloat16}


class TorchTrainer:
    """AdamW on the whole model, or on an adapter: what is trained has fp32 weights, gradients and moments, and the
    forward pass is in the asked precision."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        assert isinstance(spec.workload, TrainingWorkload)
        self.options = TorchOptions.of(spec.executor.options)
        self.spec, self.workload = spec, spec.workload
        self.device, self.threads = device_of(spec, self.options)
        self.microbatch = _microbatch(spec)
        self.accumulate = self.workload.global_batch // self.microbatch
        say("building the model")
        self.ref = spec.model
        _refuse_too_long(self.ref, self.workload.seq_len)
        self.model = self._built(self.ref).train()
        if spec.point.precision == "fp8":
            refuse_odd_rows(self.microbatch * (self.workload.seq_len if is_text(self.ref) else 1))
            convert_to_fp8(self.model)
        self.is_vision = not is_text(self.ref)
        self.batches = self.fresh_batches()
        self.optimizer = torch.optim.AdamW(trained_parameters(self.model), lr=self.workload.learning_rate, fused=True)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=spec.point.precision == "fp16")
        self._forward = self.model
        begun_s = time.monotonic()
        facts = training_facts(self, say)
        self.optimizer.state.clear()  # the evidence step had a learning rate of 0: only its moments would remain
        if isinstance(self.batches, FolderBatches):
            facts = replace(facts, findings=(*facts.findings, *self.batches.findings(self.accumulate)))
        self.examined_s = time.monotonic() - begun_s
        self._saves = OneProcessSaves(spec, self) if self.workload.checkpoint else None
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
        if self._saves is not None:
            return self._saves.step(self._steps, self._origin_ns)
        return self.optimize(self._origin_ns)

    def checkpoints(self) -> Checkpoints | None:
        """Saves so far, and the newest read back."""
        return self._saves.checkpoints(self._steps) if self._saves is not None else None

    def close(self) -> None:
        if saves := getattr(self, "_saves", None):
            saves.close()
        if batches := getattr(self, "batches", None):
            batches.close()

    def fresh_batches(self) -> Batches | FolderBatches:
        """The batches of this run from their beginning."""
        data, length, batch = self.workload.data, self.workload.seq_len, self.workload.global_batch
        if isinstance(data, Folder):
            return FolderBatches(data, self.ref, self.microbatch, length, self.spec.seed, self.device)
        return Batches(data, self.ref, self.microbatch, length, self.spec.seed, self.device, batch)

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
        """Write the weights as a Hugging Face folder (config.json and safetensors), or the adapter as PEFT's.

        A language model of a config has a tokenizer written beside it, without which no server would load it.
        """
        if self.ref.folder is None and self.workload.method == "full" and hasattr(self.model.config, "vocab_size"):
            save_with_tokenizer(self.model, folder)
        else:
            self.model.save_pretrained(folder, safe_serialization=True)

    def _built(self, ref: Model) -> nn.Module:
        """The model, with its adapter where one is trained. Random weights are drawn in fp32 for all methods alike."""
        adapter = self.workload.trained_adapter
        held = _HALF.get(self.spec.point.precision, torch.float32) if adapter is not None else torch.float32
        made_in = held if ref.folder is not None else torch.float32
        model = build_model(ref, self.options.attention, self.spec.seed, self.device, made_in)
        model = model if made_in == held else cast(model, held)
        if self.workload.checkpointing:
            recompute_activations(model)
        if adapter is None:
            return model
        if self.workload.checkpointing:
            model.enable_input_require_grads()  # else a block whose own weights stay is taken to need no gradient
        return with_adapter(model, ref, adapter, self.workload.method, self.spec.seed, held)

    def optimize(self, origin_ns: int) -> Marks:
        """One optimizer step, on the clock that begins at `origin_ns`."""
        now, device, batches = time.monotonic_ns, self.device, self.batches
        marks, losses = [], []
        begin_ns = now()
        marks.append(mark(device))
        for _ in range(self.accumulate):
            inputs, targets = batches.next()
            marks.append(mark(device))
            loss = self.loss(inputs, targets)
            marks.append(mark(device))
            self.scaler.scale(loss / self.accumulate).backward()
            losses.append(loss.detach())
            marks.append(mark(device))
        scale = self.scaler.get_scale() if self.scaler.is_enabled() else 0.0
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        marks.append(mark(device))
        synchronize(device)  # once a step: the processor may run ahead within it, as it does in anybody's loop
        loss_value = float(torch.stack(losses).mean())
        return Marks(
            begin_ns - origin_ns,
            now() - origin_ns,
            samples=self.workload.global_batch,
            tokens=0 if self.is_vision else self.workload.global_batch * self.workload.seq_len,
            loss=loss_value,
            tag="skipped" if scale and self.scaler.get_scale() < scale else None,
            **phases_of(marks),  # type: ignore[arg-type]  # the field of each phase takes a number
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


def device_of(spec: RunSpec, options: TorchOptions) -> tuple[torch.device, int]:
    """The device of a run and its threads; memory and the meaning of fp32 are then as it asks. Raises BadInput (TL203,
    TL207, TL208)."""
    if options.freed_memory == "kept":
        keep_freed_memory()
    device = choose_device(spec.device)
    refuse_unsupported(spec.point.precision, device)
    set_fp32(spec.point.precision)
    return device, set_threads(spec.executor.threads)


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


def _refuse_too_long(ref: Model, seq_len: int) -> None:
    if isinstance(ref.shape, DecoderShape) and seq_len > ref.shape.max_context:
        raise BadInput(
            f"workload.seq_len is {seq_len}, the model's context ends at {ref.shape.max_context}", code="TL202"
        )
