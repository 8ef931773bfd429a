"""Collect evidence of the embedded executor before the first row: formats, kernels, FLOP, bytes, ceilings.

The evidence is taken on real work of the run's own shape, and outside what is timed: counting and profiling slow it.
A compiled graph is compiled here and looked at here; FLOP are those of its eager twin, whose operators can be counted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from twinlens.executors.protocol import Say
from twinlens.executors.torch.ceiling.rates import ceilings_for, deciding_ceilings
from twinlens.executors.torch.evidence.facts import Kernel, check_phases, kernels_seen, resident_formats
from twinlens.executors.torch.evidence.fidelity import fidelity_rows
from twinlens.executors.torch.evidence.flop import counted_flop
from twinlens.executors.torch.evidence.graph import graph_facts, start_counting
from twinlens.executors.torch.evidence.memory import bytes_of, forget_peak, saved_activations, state_memory
from twinlens.executors.torch.evidence.software import findings_on, software, transformers_version
from twinlens.executors.torch.evidence.subject import OpenServer, OpenTrainer
from twinlens.executors.torch.evidence.tf32 import Product, fp32_computed_in, products_seen, tf32_by_name
from twinlens.executors.torch.evidence.trace import without_width
from twinlens.executors.torch.model.build import drawn_by, linear_shapes, synchronize
from twinlens.executors.torch.options import TorchOptions
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.executor.record import ExecutorRecord, PrecisionCheck, declared, observed
from twinlens.record.finding import Finding
from twinlens.spec.precision import BITS, Precision
from twinlens.spec.study import RunSpec
from twinlens.units import BYTES, COUNT, FLOP

_LEAST_BUSY = 0.5  # share of a phase that kernels take; below it the GPU mostly waits for work
_WARM_CALLS = 3  # CUDA graphs are recorded in the second or third call of a compiled graph


def training_facts(trainer: OpenTrainer, say: Say) -> Facts:
    """One real step at learning rate 0 under the counters, one under the profiler, then the ceilings.

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
    loss.backward()
    trainer.optimizer.step()
    memory = state_memory(trainer.model, trainer.optimizer) | {"activations_bytes": activations}
    resident = resident_formats(trainer.model, trainer.optimizer)
    trainer.optimizer.zero_grad(set_to_none=True)

    def one_pass() -> None:
        trainer.loss(inputs, targets).backward()
        synchronize(device)

    flop = counted_flop(one_pass)
    findings = findings_on(spec, trainer.ref, regime, device)
    if trainer.options.is_compiled:
        findings.append(_compiled(one_pass, say, trainer.compile))
    kernels = kernels_seen(one_pass, device)
    trainer.optimizer.zero_grad(set_to_none=True)
    _set_rates(trainer.optimizer, rates)
    for buffer, before in zip(trainer.model.buffers(), buffers, strict=True):
        buffer.copy_(before)
    speaking = kernels
    if regime.name == "fp8" and not trainer.is_vision:  # its output head is left in bf16, as the regime's page says
        speaking = without_width(kernels, trainer.model.config.vocab_size)
    checks = _checks(regime, "training", resident, {"step": speaking}, {"step": products}, device)
    rows = inputs.shape[0] * (1 if trainer.is_vision else inputs.shape[1])
    shapes = [(rows, out, width) for out, width in linear_shapes(trainer.model)]
    say("measuring ceilings")
    ceilings = _ceilings(spec, device, regime, [], shapes, None)
    fields = software(spec, trainer.ref, kernels, regime, checks, spec.seed, device, drawn_by(device)) | {
        "training.optimizer": observed(f"AdamW, fused, learning rate {rates[0]:g}", "torch.optim"),
        "training.accumulation_steps": observed(trainer.accumulate, "the loop"),
        "training.recompute": observed("all layers" if trainer.workload.checkpointing else "none", "the loop"),
        "training.loss_scaling": observed("dynamic" if regime.name == "fp16" else "none", "torch.amp.GradScaler"),
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
        work=_counted(flop * trainer.accumulate, "counted_step_flop", spec, trainer.model),
        ceilings=ceilings,
        memory=memory,
        entropy_rate_nats=trainer.batches.entropy_rate_nats,
        findings=tuple(findings),
    )


def inference_facts(
    server: OpenServer, sample: torch.Tensor | None, reference: list[torch.Tensor] | None, say: Say
) -> Facts:
    """A first answer under the counters and the profiler, the distance from fp32, then the ceilings."""
    say("taking evidence")
    spec, device, regime = server.spec, server.device, server.spec.precision
    findings = [*findings_on(spec, server.ref, regime, device), *server.findings]
    eager, timed = _phases(server)
    products: dict[str, Counter[Product]] = {}
    # The cache is allocated in here: in the mode that the run itself uses, or the run could not write to it.
    with server.no_grad():
        for name, call in eager.items():
            with products_seen(server.model) as products[name]:
                call()
        flop = {f"counted_{name}_flop": counted_flop(call) for name, call in eager.items()}
        if server.options.is_compiled:
            findings.append(_compiled(list(timed.values())[-1], say))
        kernels = {name: kernels_seen(call, device) for name, call in timed.items()}
    if bound := _launch_bound(server, timed, kernels):
        findings.append(bound)
    kv = server.generation.cache_tensors() if server.generation else []
    resident = resident_formats(server.model, kv_tensors=kv)
    checks = _checks(regime, "inference", resident, kernels, products, device)
    work: Estimates = {}
    for name, amount in flop.items():
        work |= _counted(amount, name, spec, server.model)
    memory = {"weights_bytes": bytes_of(_held(server.model), "resident parameters and buffers, packed ones included")}
    if kv:
        memory["kv_bytes"] = bytes_of(kv, "static KV cache as allocated")
    fidelity = fidelity_rows(server.model, server.dtype, sample, reference)
    linears = _linear_sizes(server.model)
    stored = sum(out * width * BITS.get(fmt, 32) for out, width, fmt in linears) / 8
    work["linear_bytes"] = Estimate(stored, BYTES, "weights of all linear layers, as they are stored", "derived", n=1)
    rows = spec.point.batch * (1 if server.is_vision else spec.workload.input_tokens.max)  # type: ignore[union-attr]
    gemm = [(rows, out, width) for out, width, _ in linears]
    say("measuring ceilings")
    ceilings = _ceilings(spec, device, regime, linears, gemm, server.layout)
    ran = [kernel for phase in kernels.values() for kernel in phase]
    fields = software(
        spec, server.ref, ran, regime, checks, spec.protocol.seed, device, drawn_by(device, server.made_in)
    ) | {
        "software.runtime.name": observed("torch with transformers, engine level", "executors/torch/infer.py"),
        "software.runtime.version": transformers_version(),
        "serving.batching": observed("lockstep batches", "executors/torch/infer.py"),
        "serving.max_sequences": observed(spec.point.batch, "point.batch"),
        "serving.attention": observed(server.options.attention, "model config"),
        "serving.prefix_cache": observed("none", "executors/torch/infer.py"),
        "serving.speculative": observed("none", "executors/torch/infer.py"),
        "serving.chunked_prefill": observed("no", "executors/torch/infer.py"),
        "decoding.cache_hit_ratio": declared(0.0, "executors/torch/infer.py: the cache is emptied before every batch"),
        "decoding.strategy": observed("greedy", "executors/torch/infer.py"),
        "decoding.stop": observed("forced length", "executors/torch/infer.py"),
        "point.batch_achieved": observed(spec.point.batch, "lockstep"),
    }
    fields |= graph_facts(server.options.graph, device, serving=True)
    forget_peak(device)
    return Facts(
        ExecutorRecord(fields),
        checks,
        work=work,
        ceilings=ceilings,
        memory=memory,
        fidelity=fidelity,
        findings=tuple(findings),
    )


def _launch_bound(
    server: OpenServer, timed: Mapping[str, Callable[[], Any]], kernels: Mapping[str, Sequence[Kernel]]
) -> Finding | None:
    """What a reader must know where a GPU mostly waits for the processor that gives it its work."""
    name = list(timed)[-1]
    busy_s = sum(kernel.self_time_s for kernel in kernels[name] if kernel.on_device)
    if server.device.type != "cuda" or not busy_s:
        return None
    took = []
    with server.no_grad():
        for _ in range(5):
            synchronize(server.device)
            begin_s = time.perf_counter()
            timed[name]()
            synchronize(server.device)
            took.append(time.perf_counter() - begin_s)
    return launch_bound(name, busy_s, min(took))


def launch_bound(phase: str, busy_s: float, took_s: float) -> Finding | None:
    """The finding, where kernels take less than half of the time a phase takes."""
    if busy_s >= _LEAST_BUSY * took_s:
        return None
    return Finding("launch-bound", "notes", phase, {"took_s": took_s, "busy_s": busy_s})


def _compiled(call: Callable[[], Any], say: Say, make: Callable[[], None] | None = None) -> Finding:
    """Compile, run until graphs are recorded, and say how long that took: no row pays for it."""
    say("compiling")
    start_counting()
    begin_s = time.perf_counter()
    if make:
        make()
    for _ in range(_WARM_CALLS):
        call()
    took_s = time.perf_counter() - begin_s
    return Finding("compiled-first", "notes", "", {"took_s": took_s})


def _phases(server: OpenServer) -> tuple[dict[str, Callable[[], Any]], dict[str, Callable[[], Any]]]:
    """The phases run eagerly, whose operators can be counted, and as they are timed."""
    batch = server.spec.point.batch
    if server.generation is None:
        pixels = server.images[:batch].to(server.dtype)
        return {"image": lambda: server.model(pixel_values=pixels)}, {
            "image": lambda: server.forward(pixel_values=pixels)
        }
    generation, length = server.generation, server.spec.workload.input_tokens.max  # type: ignore[union-attr]
    prompts = server.prompts.batch([(7, i) for i in range(batch)], length).to(server.device)
    newest = torch.zeros(batch, 1, dtype=torch.long, device=server.device)
    position = torch.full_like(newest, length)

    def prefill() -> None:
        generation.cache.reset()
        generation.prefill(prompts)

    def again(step: Callable[..., Any]) -> Callable[[], Any]:
        def decode() -> None:
            generation.rewind(length)  # taken many times here, the step would run out of the cache
            step(newest, position)

        return decode

    return (
        {"prefill": prefill, "decode": again(generation.decode_eager)},
        {"prefill": prefill, "decode": again(generation.decode)},
    )


def _counted(amount: int, name: str, spec: RunSpec, model: torch.nn.Module) -> Estimates:
    twin = ", of the eager twin of the compiled graph" if TorchOptions.of(spec.executor.options).is_compiled else ""
    parameters = sum(p.numel() for p in model.parameters())
    method = f"counted on one real pass (torch FlopCounterMode with our formulas){twin}"
    return {
        name: Estimate(float(amount), FLOP, method, "measured", n=1),
        "resident_parameters": Estimate(
            float(parameters), COUNT, "unquantised parameters in the model", "measured", n=1
        ),
    }


def _ceilings(
    spec: RunSpec,
    device: torch.device,
    regime: Precision,
    matvec: list[tuple[int, int, str]],
    gemm: list[tuple[int, int, int]],
    layout: str | None,
) -> Estimates:
    if not spec.protocol.ceilings:
        return {}
    stored = regime.classes(spec.lens)["weights"] if spec.lens == "inference" else regime.compute
    kernel = {"int8-dynamic": "dynamic", "int8-weight": "packed", "int4-weight": "packed"}.get(regime.name, layout)
    ceilings = ceilings_for(regime.compute, matvec, gemm, str(device), weights=stored, layout=kernel)
    return {name: estimate for name, estimate in ceilings.items() if matvec or not name.startswith("matvec")}


def ceilings_again(spec: RunSpec, device: torch.device) -> Estimates:
    """After the rows, the ceilings that shares of this run are made with; empty where none were measured before."""
    if not spec.protocol.ceilings:
        return {}
    return deciding_ceilings(spec.precision.compute, str(device), serving=spec.lens == "inference")


def _checks(
    regime: Precision,
    lens: Any,
    resident: Any,
    kernels: Mapping[str, Sequence[Kernel]],
    products: Mapping[str, Mapping[Product, int]],
    device: torch.device,
) -> tuple[PrecisionCheck, ...]:
    asked = regime.classes(lens) | {"compute": regime.compute}
    if device.type != "cuda" or regime.compute not in ("fp32", "tf32"):
        return check_phases(asked, resident, kernels, str(device))
    tried = {phase: fp32_computed_in(products.get(phase, {}), device) for phase in kernels}
    checks = check_phases(asked, resident, kernels, str(device), tried)
    named = {phase: share for phase, seen in kernels.items() if (share := tf32_by_name(seen)) is not None}
    return tuple(_witnessed(check, tried, named) for check in checks)


def _witnessed(
    check: PrecisionCheck, tried: Mapping[str, Mapping[str, float]], named: Mapping[str, float]
) -> PrecisionCheck:
    """The evidence with what the arithmetic and the kernels' names say; where they disagree, that is said."""
    if check.tensor_class != "compute":
        return check
    words = [f"{phase} {shares.get('tf32', 0.0):.0%}" for phase, shares in tried.items()]
    names = [f"{phase} {share:.0%}" for phase, share in named.items()]
    witness = f"tf32 by arithmetic at the model's shapes: {', '.join(words)}"
    witness += f"; by names of kernels: {', '.join(names)}" if names else ""
    return replace(check, evidence=f"{check.evidence}; {witness}")


def _linear_sizes(model: torch.nn.Module) -> list[tuple[int, int, str]]:
    """(out, in, stored format) of every linear layer: a tied head, or one a kernel cannot do, may be left wider."""
    sizes = []
    for module in model.modules():
        out, width = getattr(module, "out_features", None), getattr(module, "in_features", None)
        if isinstance(out, int) and isinstance(width, int):
            held = resident_formats(module).get("weights") or {"fp32": 0}
            sizes.append((out, width, max(held, key=lambda fmt: held[fmt])))
    return sizes


def _held(model: torch.nn.Module) -> list[torch.Tensor]:
    """Parameters, buffers and the packed weights that torch's own quantised modules hide."""
    packed = [
        m.weight() for m in model.modules() if hasattr(m, "_packed_params") and callable(getattr(m, "weight", None))
    ]
    return [*model.parameters(), *model.buffers(), *packed]


def _set_rates(optimizer: torch.optim.Optimizer, rates: list[float]) -> None:
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
