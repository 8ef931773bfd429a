"""Evidence of a training run, taken before the first row on one real step of the run's own shape.

It is outside what is timed: counting and profiling slow a step. A compiled graph is compiled and profiled here; FLOP
are those of its eager twin, whose operators can be counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from twinlens.executors.protocol import Say
from twinlens.executors.torch.ceiling.rates import own_shapes
from twinlens.executors.torch.evidence.check import products_seen, witnessed_checks
from twinlens.executors.torch.evidence.facts import findings_on, graph_facts, software
from twinlens.executors.torch.evidence.flop import counted_flop
from twinlens.executors.torch.evidence.memory import forget_peak, resident_formats, saved_activations, state_memory
from twinlens.executors.torch.evidence.trace import kernels_seen, without_width
from twinlens.executors.torch.evidence.work import (
    ceilings_of_run,
    compile_first,
    counted_work,
    from_weights,
    method_words,
    trainable,
)
from twinlens.executors.torch.model.build import drawn_by, linear_shapes, synchronize
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.units import BYTES

if TYPE_CHECKING:
    from twinlens.executors.torch.deepspeed.engine import ZeroEngine
    from twinlens.executors.torch.parallel.training import RankTraining
    from twinlens.executors.torch.train import TorchTrainer


def training_facts(trainer: TorchTrainer | RankTraining, say: Say, engine: ZeroEngine | None = None) -> Facts:
    """One real step at learning rate 0 under the counters, one under the profiler, then the ceilings.

    `engine`: what has taken over the backward pass and the update, and knows what it holds.

    Neither changes the weights: AdamW's update and its decoupled decay are both proportional to the learning rate.
    """
    say("taking evidence")
    spec, device, regime = trainer.spec, trainer.device, trainer.spec.precision
    inputs, targets = trainer.batches.held_out(0)
    rates = [group["lr"] for group in trainer.optimizer.param_groups]
    _set_rates(trainer.optimizer, [0.0] * len(rates))
    buffers = [buffer.clone() for buffer in trainer.model.buffers()]  # a normalisation's statistics move in any forward
    with saved_activations(trainer.model) as saved, products_seen(trainer.model) as products:
        loss = trainer.loss(inputs, targets)
        kept = float(sum(saved.values()))
    activations = Estimate(kept, BYTES, "storages saved for the backward pass of one microbatch", "measured", n=1)
    if engine is None:
        loss.backward()
        trainer.optimizer.step()
        tuned = trainer.workload.trained_adapter is not None
        memory = state_memory(trainer.model, trainer.optimizer, has_adapter=tuned)
        resident = resident_formats(trainer.model, trainer.optimizer, has_adapter=tuned)
    else:
        engine.backward(loss)
        engine.update()
        memory, resident = engine.held()
    memory |= {"activations_bytes": activations}
    trainer.optimizer.zero_grad(set_to_none=True)

    def one_pass() -> None:
        loss = trainer.loss(inputs, targets)
        loss.backward() if engine is None else engine.backward(loss)
        synchronize(device)

    flop = counted_flop(one_pass)
    findings = [*findings_on(spec, trainer.ref, regime, device), *from_weights(trainer.ref, float(loss.detach()))]
    if trainer.options.is_compiled:
        findings.append(compile_first(one_pass, say, trainer.compile))
    kernels = kernels_seen(one_pass, device)
    trainer.optimizer.zero_grad(set_to_none=True)
    _set_rates(trainer.optimizer, rates)
    for buffer, before in zip(trainer.model.buffers(), buffers, strict=True):
        buffer.copy_(before)
    speaking = kernels
    if regime.name == "fp8" and not trainer.is_vision:  # its output head is left in bf16, as the regime's page says
        speaking = without_width(kernels, trainer.model.config.vocab_size)
    checks = witnessed_checks(regime, "training", resident, {"step": speaking}, {"step": products}, device)
    shapes = own_shapes(trainer.ref.shape, linear_shapes(trainer.model), inputs.shape[0], inputs.shape[1])
    say("measuring ceilings")
    ceilings = ceilings_of_run(spec, device, regime, [], shapes, None)
    fields = software(spec, trainer.ref, kernels, regime, checks, spec.seed, device, drawn_by(device)) | {
        "training.optimizer": observed(f"AdamW, fused, learning rate {rates[0]:g}", "torch.optim"),
        "training.method": observed(method_words(trainer), "the model"),
        "training.accumulation_steps": observed(trainer.accumulate, "the loop"),
        "training.recompute": observed("all layers" if trainer.workload.checkpointing else "none", "the loop"),
        "training.loss_scaling": observed("dynamic" if regime.compute == "fp16" else "none", "torch.amp.GradScaler"),
        "training.strategy": observed("one process", "the loop"),
        "training.world_size": observed(1, "the loop"),
        "training.data_pipeline": observed(f"{trainer.workload.data.kind}, {trainer.batches.how}", "the loop"),
        "point.batch": observed(trainer.workload.global_batch, "the loop"),
    }
    fields |= graph_facts(trainer.options.graph, device, serving=False)
    forget_peak(device)
    return Facts(
        ExecutorRecord(fields),
        checks,
        work=counted_work(flop * trainer.accumulate, "counted_step_flop", spec, trainer.model)
        | {"trainable_parameters": trainable(trainer.model)},
        ceilings=ceilings,
        memory=memory,
        entropy_rate_nats=trainer.batches.entropy_rate_nats,
        findings=tuple(findings),
    )


def _set_rates(optimizer: torch.optim.Optimizer, rates: list[float]) -> None:
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
