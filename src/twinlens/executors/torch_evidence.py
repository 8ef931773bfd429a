"""What the embedded executor can prove about itself before the first row: formats, kernels, FLOP, bytes, ceilings.

The evidence is taken on real work of the run's own shape, and outside what is timed: counting and profiling slow it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from twinlens.executors.protocol import Say
from twinlens.executors.torch_ceiling import ceilings_for
from twinlens.executors.torch_facts import (
    Kernel,
    check_precision,
    framework_facts,
    kernels_seen,
    resident_formats,
)
from twinlens.executors.torch_fidelity import fidelity_rows
from twinlens.executors.torch_flop import counted_flop, flop_coverage
from twinlens.executors.torch_memory import bytes_of, saved_activations, state_memory
from twinlens.executors.torch_model import linear_shapes, synchronize, weights_hash
from twinlens.record.estimate import Estimate
from twinlens.record.executor import ExecutorRecord, Fact, PrecisionCheck, declared, observed
from twinlens.record.facts import Estimates, Facts
from twinlens.spec.model import ModelRef
from twinlens.spec.precision import BITS, Precision, precision
from twinlens.spec.study import RunSpec
from twinlens.units import BYTES, COUNT, FLOP, RATIO

if TYPE_CHECKING:
    from twinlens.executors.torch_infer import TorchServer
    from twinlens.executors.torch_train import TorchTrainer


def training_facts(trainer: TorchTrainer, say: Say) -> Facts:
    """One real step at learning rate 0 under the counters, one under the profiler, then the ceilings.

    Neither changes the weights: AdamW's update and its decoupled decay are both proportional to the learning rate.
    """
    say("taking evidence")
    inputs, targets = trainer.batches.held_out(0)
    rates = [group["lr"] for group in trainer.optimizer.param_groups]
    _set_rates(trainer.optimizer, [0.0] * len(rates))
    buffers = [buffer.clone() for buffer in trainer.model.buffers()]  # a normalisation's statistics move in any forward
    with saved_activations(trainer.model) as saved:
        loss = trainer.loss(inputs, targets)
        activations = Estimate(
            float(sum(saved.values())),
            BYTES,
            "storages saved for the backward pass of one microbatch",
            "measured",
            n=1,
        )
    loss.backward()
    trainer.optimizer.step()
    memory = state_memory(trainer.model, trainer.optimizer) | {"activations_bytes": activations}
    resident = resident_formats(trainer.model, trainer.optimizer)
    trainer.optimizer.zero_grad(set_to_none=True)

    def one_pass() -> None:
        trainer.loss(inputs, targets).backward()
        synchronize(trainer.device)

    flop = counted_flop(one_pass)
    kernels = kernels_seen(one_pass)
    trainer.optimizer.zero_grad(set_to_none=True)
    _set_rates(trainer.optimizer, rates)
    for buffer, before in zip(trainer.model.buffers(), buffers, strict=True):
        buffer.copy_(before)
    regime = precision(trainer.spec.point.precision)
    checks = _checks(regime, "training", resident, kernels, trainer.device)
    rows = inputs.shape[0] * (1 if trainer.is_vision else inputs.shape[1])
    shapes = [(rows, out, width) for out, width in linear_shapes(trainer.model)]
    say("measuring ceilings")
    said = _software(trainer.spec, trainer.ref, kernels, regime, checks, trainer.spec.seed, trainer.device) | {
        "training.optimizer": observed(f"AdamW, fused, learning rate {rates[0]:g}", "torch.optim"),
        "training.accumulation_steps": observed(trainer.accumulate, "the loop"),
        "training.recompute": observed("all layers" if trainer.workload.checkpointing else "none", "the loop"),
        "training.loss_scaling": observed("dynamic" if regime.name == "fp16" else "none", "torch.amp.GradScaler"),
        "training.strategy": observed("one process", "the loop"),
        "training.world_size": observed(1, "the loop"),
        "training.data_pipeline": observed(f"{trainer.workload.data.kind}, made in the loop", "the loop"),
        "point.batch": observed(trainer.workload.global_batch, "the loop"),
    }
    return Facts(
        ExecutorRecord(said),
        checks,
        work=_counted(flop * trainer.accumulate, "counted_step_flop", kernels, trainer.model),
        ceilings=_ceilings(trainer.spec, trainer.device, regime, [], shapes, None),
        memory=memory,
        entropy_rate_nats=trainer.batches.entropy_rate_nats,
        notes=tuple(_notes(trainer.ref, regime, trainer.device)),
    )


def inference_facts(
    server: TorchServer, sample: torch.Tensor | None, reference: torch.Tensor | None, say: Say
) -> Facts:
    """A first answer under the counters and the profiler, the distance from fp32, then the ceilings."""
    say("taking evidence")
    regime = precision(server.spec.point.precision)
    phases = _phases(server)
    # The cache is allocated in here: in the mode that the run itself uses, or the run could not write to it.
    with server.generation.no_grad() if server.generation else torch.inference_mode():
        for call in phases.values():
            call()
        flop = {f"counted_{name}_flop": counted_flop(call) for name, call in phases.items()}
        kernels = kernels_seen(list(phases.values())[-1])
    kv = server.generation.cache_tensors() if server.generation else []
    resident = resident_formats(server.model, kv_tensors=kv)
    checks = _checks(regime, "inference", resident, kernels, server.device)
    work: Estimates = {}
    for name, amount in flop.items():
        work |= _counted(amount, name, kernels, server.model)
    memory = {"weights_bytes": bytes_of(_held(server.model), "resident parameters and buffers, packed ones included")}
    if kv:
        memory["kv_bytes"] = bytes_of(kv, "static KV cache as allocated")
    fidelity = fidelity_rows(server.model, server.dtype, sample, reference)
    say("measuring ceilings")
    said = _software(server.spec, server.ref, kernels, regime, checks, server.spec.protocol.seed, server.device) | {
        "software.runtime.name": observed("torch with transformers, engine level", "executors/torch_infer.py"),
        "software.runtime.version": _transformers_version(),
        "serving.batching": observed("lockstep batches", "executors/torch_infer.py"),
        "serving.max_sequences": observed(server.spec.point.batch, "point.batch"),
        "serving.attention": observed(server.spec.executor.attention, "model config"),
        "serving.prefix_cache": observed("none", "executors/torch_infer.py"),
        "serving.speculative": observed("none", "executors/torch_infer.py"),
        "serving.chunked_prefill": observed("no", "executors/torch_infer.py"),
        "decoding.strategy": observed("greedy", "executors/torch_infer.py"),
        "decoding.stop": observed("forced length", "executors/torch_infer.py"),
        "decoding.cache_hit_ratio": declared(0.0, "executors/torch_infer.py: the cache is emptied before every batch"),
        "point.batch_achieved": observed(server.spec.point.batch, "lockstep"),
    }
    linears = _linear_sizes(server)
    stored_bits = BITS[regime.classes("inference")["weights"]]
    work["linear_bytes"] = Estimate(
        sum(out * width for out, width in linears) * stored_bits / 8,
        BYTES,
        "weights of all linear layers",
        "derived",
        n=1,
    )
    rows = server.spec.point.batch * (1 if server.is_vision else server.spec.workload.input_tokens.max)  # type: ignore[union-attr]
    return Facts(
        ExecutorRecord(said),
        checks,
        work=work,
        ceilings=_ceilings(
            server.spec,
            server.device,
            regime,
            linears,
            [(rows, out, width) for out, width in linears],
            server.layout,
        ),
        memory=memory,
        fidelity=fidelity,
        notes=tuple(_notes(server.ref, regime, server.device)),
    )


def _phases(server: TorchServer) -> dict[str, Callable[[], Any]]:
    batch = server.spec.point.batch
    if server.generation is None:
        pixels = server.images[:batch].to(server.dtype)
        return {"image": lambda: server.model(pixel_values=pixels)}
    generation, length = server.generation, server.spec.workload.input_tokens.max  # type: ignore[union-attr]
    prompts = server.prompts.batch([(7, i) for i in range(batch)], length).to(server.device)
    newest = torch.zeros(batch, 1, dtype=torch.long, device=server.device)
    position = torch.full_like(newest, length)

    def prefill() -> None:
        generation.cache.reset()
        generation.prefill(prompts)

    return {"prefill": prefill, "decode": lambda: generation.decode_eager(newest, position)}


def _counted(amount: int, name: str, kernels: Sequence[Kernel], model: torch.nn.Module) -> Estimates:
    parameters = sum(p.numel() for p in model.parameters())
    return {
        name: Estimate(
            float(amount),
            FLOP,
            "counted on one real pass (torch FlopCounterMode, CPU attention added)",
            "measured",
            n=1,
        ),
        "flop_coverage": Estimate(
            flop_coverage(kernels),
            RATIO,
            "share of profiled operator time in operators with a FLOP formula",
            "measured",
            n=1,
        ),
        "resident_parameters": Estimate(
            float(parameters), COUNT, "unquantised parameters in the model", "measured", n=1
        ),
    }


def _ceilings(
    spec: RunSpec,
    device: torch.device,
    regime: Precision,
    matvec: list[tuple[int, int]],
    gemm: list[tuple[int, int, int]],
    layout: str | None,
) -> Estimates:
    if not spec.protocol.ceilings:
        return {}
    stored = regime.classes(spec.lens)["weights"] if spec.lens == "inference" else regime.compute
    kernel = {"int8-dynamic": "dynamic", "int8-weight": "packed", "int4-weight": "packed"}.get(regime.name, layout)
    found = ceilings_for(regime.compute, matvec, gemm, str(device), weights=stored, layout=kernel)
    return {name: estimate for name, estimate in found.items() if matvec or not name.startswith("matvec")}


def _checks(
    regime: Precision, lens: Any, resident: Any, kernels: Sequence[Kernel], device: torch.device
) -> tuple[PrecisionCheck, ...]:
    return check_precision(regime.classes(lens) | {"compute": regime.compute}, resident, kernels, str(device))


def _software(
    spec: RunSpec,
    ref: ModelRef,
    kernels: Sequence[Kernel],
    regime: Precision,
    checks: Sequence[PrecisionCheck],
    weights_seed: int,
    device: torch.device,
) -> dict[str, Fact]:
    compiled = spec.executor.graph == "compiled"
    facts = framework_facts() | {
        "compiler.name": observed("torch.compile (inductor)" if compiled else "none (eager)", "executor.graph"),
        "compiler.version": observed(str(torch.__version__), "torch.__version__"),
        "compiler.flags": observed(
            {"graph": "compiled" if compiled else "eager", "layout": spec.executor.layout}, "the executor"
        ),
        "kernels.selected": observed([k.name for k in kernels[:8]], "torch.profiler"),
        "protocol.synchronisation": observed("device synchronised at every mark", "the loop"),
        "model.id": declared(ref.name, ref.source),
        "model.weights_hash": observed(weights_hash(ref, weights_seed), "weights" if ref.folder else "config and seed"),
        "precision.name": declared(regime.name, "spec"),
        "precision.method": declared(regime.method, "spec/precision.py"),
        "precision.calibration": declared("none needed", "spec/precision.py"),
        "precision.detail": declared(
            f"group {regime.group or 'per channel'}, scales of {regime.scale_bits} bits"
            if regime.quantised
            else "plain",
            "spec/precision.py",
        ),
    }
    for check in checks:
        facts[f"precision.{check.tensor_class}"] = (
            observed(check.observed, check.evidence)
            if check.observed
            else declared(check.declared, "not seen: " + check.evidence)
        )
    if device.type == "cuda":
        facts["accelerator.uuid"] = observed([f"GPU-{torch.cuda.get_device_properties(device).uuid}"], "torch.cuda")
    facts["precision.support"] = observed({c.tensor_class: c.support for c in checks}, "instruction set and kernels")
    return facts


def _transformers_version() -> Fact:
    import transformers

    return observed(transformers.__version__, "transformers.__version__")


def _linear_sizes(server: TorchServer) -> list[tuple[int, int]]:
    """(out, in) of every linear layer, quantised ones included."""
    found = []
    for module in server.model.modules():
        out, width = getattr(module, "out_features", None), getattr(module, "in_features", None)
        if isinstance(out, int) and isinstance(width, int):
            found.append((out, width))
    return found


def _held(model: torch.nn.Module) -> list[torch.Tensor]:
    """Parameters, buffers and the packed weights that torch's own quantised modules hide."""
    packed = [
        m.weight() for m in model.modules() if hasattr(m, "_packed_params") and callable(getattr(m, "weight", None))
    ]
    return [*model.parameters(), *model.buffers(), *packed]


def _set_rates(optimizer: torch.optim.Optimizer, rates: list[float]) -> None:
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def _notes(ref: ModelRef, regime: Precision, device: torch.device) -> list[str]:
    notes = []
    if ref.folder is None:
        notes.append(
            f"{ref.name} has random weights made from its config: speed and memory do not depend on their values, "
            "but fidelity figures say how the arithmetic differs, not what a trained model would lose."
        )
    if regime.name == "fp16" and device.type == "cpu":
        notes.append("fp16 on this CPU is emulated: expect it to be slower than fp32.")
    return notes
