"""Evidence of an inference run, taken before the first row on a real prefill and decode step of the run's own shape.

It is outside what is timed: counting and profiling slow a step. A compiled graph is compiled and profiled here; FLOP
are those of its eager twin, whose operators can be counted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from twinlens.executors.in_process.precision_check import compared_with
from twinlens.executors.in_process.weights import lockstep_facts
from twinlens.executors.protocol import Say
from twinlens.executors.torch.ceiling.rates import own_shapes
from twinlens.executors.torch.evidence.check import Product, products_seen, witnessed_checks
from twinlens.executors.torch.evidence.facts import findings_on, graph_facts, software, transformers_version
from twinlens.executors.torch.evidence.flop import counted_flop
from twinlens.executors.torch.evidence.memory import bytes_of, forget_peak, resident_formats
from twinlens.executors.torch.evidence.trace import Kernel, kernels_seen, without_head
from twinlens.executors.torch.evidence.work import (
    adapter_tensors,
    ceilings_of_run,
    compile_first,
    counted_work,
    served_words,
)
from twinlens.executors.torch.model.build import drawn_by, synchronize
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts, FidelityRow
from twinlens.record.executor.record import ExecutorRecord, declared, observed
from twinlens.record.finding import Finding
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import BITS
from twinlens.units import BYTES

if TYPE_CHECKING:
    from twinlens.executors.torch.infer import TorchServer


_HERE = "executors/torch/infer.py"


def inference_facts(
    server: TorchServer, sample: torch.Tensor | None, reference: list[torch.Tensor] | None, say: Say
) -> Facts:
    """A first answer under the counters and the profiler, the distance from fp32, then the ceilings."""
    say("taking evidence")
    spec, device, regime = server.spec, server.device, server.spec.precision
    findings = [*findings_on(spec, server.ref, regime, device), *server.findings]
    eager, timed = phases_of(server)
    products: dict[str, Counter[Product]] = {}
    # The cache is allocated in here: in the mode that the run itself uses, or the run could not write to it.
    with server.no_grad():
        for name, call in eager.items():
            with products_seen(server.model) as products[name]:
                call()
        flop = {f"counted_{name}_flop": counted_flop(call) for name, call in eager.items()}
        if server.options.is_compiled:
            findings.append(compile_first(list(timed.values())[-1], say))
        kernels = {name: kernels_seen(call, device) for name, call in timed.items()}
    if bound := find_launch_bound(server, timed, kernels):
        findings.append(bound)
    kv = server.generation.cache_tensors() if server.generation else []
    resident = resident_formats(server.model, kv_tensors=kv)
    linears = linear_sizes(server.model)
    checks = witnessed_checks(regime, "inference", resident, _speaking(server, kernels, linears), products, device)
    work: Estimates = {}
    for name, amount in flop.items():
        work |= counted_work(amount, name, spec, server.model)
    memory = {"weights_bytes": bytes_of(_held(server.model), "resident parameters and buffers, packed ones included")}
    if beside := adapter_tensors(server.model):
        memory["adapter_bytes"] = bytes_of(beside, "resident parameters of an adapter, which are in the weights too")
    if kv:
        memory["kv_bytes"] = bytes_of(kv, "static KV cache as allocated")
    fidelity = fidelity_rows(server.model, server.dtype, sample, reference)
    stored = sum(out * width * BITS.get(fmt, 32) for out, width, fmt in linears) / 8
    work["linear_bytes"] = Estimate(stored, BYTES, "weights of all linear layers, as they are stored", "derived", n=1)
    tokens = spec.workload.input_tokens.max  # type: ignore[union-attr]
    gemm = own_shapes(server.ref.shape, [(out, width) for out, width, _ in linears], spec.point.batch, tokens)
    say("measuring ceilings")
    ceilings = ceilings_of_run(spec, device, regime, linears, gemm, server.layout)
    ran = [kernel for phase in kernels.values() for kernel in phase]
    fields = software(spec, server.ref, ran, regime, checks, spec.protocol.seed, device, drawn_by(device)) | {
        "software.runtime.name": observed("torch with transformers, engine level", _HERE),
        "software.runtime.version": transformers_version(),
        "serving.attention": observed(server.options.attention, "model config"),
        "serving.adapter": observed(served_words(server.model, spec), "the model"),
        "decoding.cache_hit_ratio": declared(0.0, f"{_HERE}: the cache is emptied before every batch"),
    }
    fields |= lockstep_facts(spec.point.batch, _HERE)
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


def _speaking(
    server: TorchServer, kernels: Mapping[str, tuple[Kernel, ...]], linears: Sequence[tuple[int, int, str]]
) -> Mapping[str, tuple[Kernel, ...]]:
    """The kernels that tell the format of products: without an output head that is left wider, as a tied one is."""
    words = server.ref.shape.vocab if isinstance(server.ref.shape, DecoderShape) else None
    wider = {held for out, _, held in linears if out == words} - {server.spec.precision.compute}
    if not server.spec.precision.quantised or words is None or len(wider) != 1:
        return kernels
    return {phase: without_head(ran, words, next(iter(wider))) for phase, ran in kernels.items()}


def phases_of(server: TorchServer) -> tuple[dict[str, Callable[[], Any]], dict[str, Callable[[], Any]]]:
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


def linear_sizes(model: torch.nn.Module) -> list[tuple[int, int, str]]:
    """(out, in, stored format) of every linear layer: a tied head, or one a kernel cannot do, may be left wider."""
    sizes = []
    for module in model.modules():
        out, width = getattr(module, "out_features", None), getattr(module, "in_features", None)
        if isinstance(out, int) and isinstance(width, int) and not hasattr(module, "base_layer"):  # its parts follow
            held = resident_formats(module).get("weights") or {"fp32": 0}
            sizes.append((out, width, max(held, key=lambda fmt: held[fmt])))
    return sizes


def _held(model: torch.nn.Module) -> list[torch.Tensor]:
    """Parameters, buffers and the packed weights that torch's own quantised modules hide."""
    packed = [
        m.weight() for m in model.modules() if hasattr(m, "_packed_params") and callable(getattr(m, "weight", None))
    ]
    return [*model.parameters(), *model.buffers(), *packed]


_LEAST_BUSY = 0.5  # share of a phase that kernels take; below it the GPU mostly waits for work


def find_launch_bound(
    server: TorchServer, timed: Mapping[str, Callable[[], Any]], kernels: Mapping[str, Sequence[Kernel]]
) -> Finding | None:
    """The finding where a GPU mostly waits for the processor that gives it its work."""
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


def reference_logits(model: nn.Module, sample: torch.Tensor) -> list[torch.Tensor]:
    """fp32 log probabilities of each prompt of the sample, on the CPU: (positions, vocabulary) or (1, classes)."""
    with torch.inference_mode():
        return [_log_probabilities(model, row[None]).cpu() for row in sample]


def fidelity_rows(
    model: nn.Module, dtype: torch.dtype, sample: torch.Tensor | None, reference: list[torch.Tensor] | None
) -> tuple[FidelityRow, ...]:
    """One row per prompt of the sample, against `reference_logits` of the fp32 model; none without a sample.

    The sample is token ids, (prompts, length), or images of `dtype` after a cast, (prompts, channels, size, size).
    """
    if sample is None or reference is None:
        return ()
    rows = []
    with torch.inference_mode():
        for prompt, expected in zip(sample, reference, strict=True):
            is_image = prompt.is_floating_point()
            seen = _log_probabilities(model, prompt[None].to(dtype) if is_image else prompt[None])
            tokens = None if is_image else prompt.cpu().numpy()
            rows.append(compared_with(expected.numpy(), seen.cpu().numpy(), tokens))
    return tuple(rows)


def _log_probabilities(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    if batch.is_floating_point():
        return model(pixel_values=batch).logits.float().log_softmax(-1)
    return model(input_ids=batch, use_cache=False).logits[0].float().log_softmax(-1)
