"""Work of a run as evidence: FLOP counted, graphs compiled, ceilings measured beside it."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from twinlens.executors.in_process.ceiling import Ceiling, DeviceProbe
from twinlens.executors.in_process.weights import weights_hash
from twinlens.executors.protocol import Say
from twinlens.executors.torch.ceiling.rates import all_ceilings, ceilings_for, deciding_ceilings
from twinlens.executors.torch.device import auto_note, choose_device
from twinlens.executors.torch.entry import TorchOptions
from twinlens.executors.torch.evidence.facts import device_facts, framework_facts, start_counting
from twinlens.executors.torch.evidence.memory import elements_of
from twinlens.executors.torch.model.build import parameter_count
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates
from twinlens.record.finding import Finding
from twinlens.spec.device import asked_device
from twinlens.spec.model.any_model import Model
from twinlens.spec.precision import Precision
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.units import COUNT, FLOP

if TYPE_CHECKING:
    from twinlens.executors.torch.parallel.training import RankTraining
    from twinlens.executors.torch.train import TorchTrainer

_WARM_CALLS = 3  # CUDA graphs are recorded in the second or third call of a compiled graph


def compile_first(call: Callable[[], Any], say: Say, make: Callable[[], None] | None = None) -> Finding:
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


def counted_work(amount: int, name: str, spec: RunSpec, model: torch.nn.Module) -> Estimates:
    twin = ", of the eager twin of the compiled graph" if TorchOptions.of(spec.executor.options).is_compiled else ""
    parameters = sum(elements_of(p) for p in model.parameters() if getattr(p, "quant_state", None) is None)
    method = f"counted on one real pass (torch FlopCounterMode with our formulas){twin}"
    if spec.model.shape is None:  # theory is silent, and so the model itself is asked
        whole = Estimate(
            float(parameter_count(spec.model)), COUNT, "counted in the model that was built", "measured", n=1
        )
        known = {"parameters": whole}
    else:
        known = {}
    return known | {
        name: Estimate(float(amount), FLOP, method, "measured", n=1),
        "resident_parameters": Estimate(
            float(parameters), COUNT, "unquantised parameters in the model", "measured", n=1
        ),
    }


def ceilings_of_run(
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
    return ceilings_at(regime, str(device), matvec, gemm, weights=stored, layout=layout)


def ceilings_at(
    regime: Precision,
    device: str,
    matvec: list[tuple[int, int, str]],
    gemm: list[tuple[int, int, int]],
    *,
    weights: str,
    layout: str | None = None,
    threads: int | None = None,
) -> Estimates:
    """Ceilings at a precision and a model's own shapes; none of one row by weights where it has no such product."""
    kernel = {"int8-dynamic": "dynamic", "int8-weight": "packed", "int4-weight": "packed"}.get(regime.name, layout)
    found = ceilings_for(regime.compute, matvec, gemm, device, weights=weights, layout=kernel, threads=threads)
    return {name: estimate for name, estimate in found.items() if matvec or not name.startswith("matvec")}


def ceilings_again(spec: RunSpec, device: torch.device) -> Estimates:
    """After the rows, the ceilings that shares of this run are made with; empty where none were measured before."""
    if not spec.protocol.ceilings:
        return {}
    return deciding_ceilings(spec.precision.compute, str(device), serving=spec.lens == "inference")


# Evidence of fine-tuning: the adapter that is really there, parameters that are trained, weights at the start.


def trainable(model: nn.Module) -> Estimate:
    """How many parameters take a gradient, tied ones once."""
    counted = sum(elements_of(parameter) for parameter in model.parameters() if parameter.requires_grad)
    return Estimate(float(counted), COUNT, "parameters that take a gradient", "measured", n=1)


def method_words(trainer: TorchTrainer | RankTraining) -> str:
    """ "lora, r 8, lora_alpha 16, lora_dropout 0, on 14 layers: 2 × q_proj, …"; "full" where all is trained."""
    adapter = trainer.workload.trained_adapter
    if adapter is None:
        return trainer.workload.method
    how = f"r {adapter.r}, lora_alpha {adapter.lora_alpha:g}, lora_dropout {adapter.lora_dropout:g}"
    return f"{trainer.workload.method}, {how}, {_layers(trainer.model)}"


def served_words(model: nn.Module, spec: RunSpec) -> str:
    """ "beside the weights, r 8, on 14 layers: 2 × q_proj, …"; "merged, r 8", of which no layer is left; "none"."""
    assert isinstance(spec.workload, InferenceWorkload)
    adapter = spec.workload.adapter
    if adapter is None:
        return "none"
    rank = f"r {adapter.r}, lora_alpha {adapter.lora_alpha:g}"
    return f"beside the weights, {rank}, {_layers(model)}" if adapter_tensors(model) else f"merged, {rank}"


def adapter_tensors(model: nn.Module) -> list[torch.Tensor]:
    """The parameters of an adapter that stands beside the weights."""
    return [parameter for name, parameter in model.named_parameters() if ".lora_" in name]


def _layers(model: nn.Module) -> str:
    layers = [name for name, module in model.named_modules() if hasattr(module, "lora_A")]
    kinds = Counter(name.rpartition(".")[2] for name in layers)
    return f"on {len(layers)} layers: " + ", ".join(f"{many} × {kind}" for kind, many in kinds.items())


def from_weights(ref: Model, loss_nats: float) -> list[Finding]:
    """The finding on training that begins with weights of a folder: which, and their loss on the first held-out batch.

    None for random weights.
    """
    if ref.folder is None:
        return []
    return [Finding("from-weights", "notes", ref.name, {"hash": weights_hash(ref, 0), "loss_nats": loss_nats})]


def probe_device(asked: str) -> DeviceProbe:
    """Raises BadInput (TL208) for a device that is not here."""
    device = asked_device(asked)
    chosen = choose_device(device)

    def ceilings() -> tuple[Ceiling, ...]:
        with warnings.catch_warnings():  # what torch has to say of kernels that are tried here is nothing to act on
            warnings.simplefilter("ignore", UserWarning)
            return all_ceilings(str(chosen))

    def deciding(format: str, threads: int | None) -> Mapping[str, Estimate]:
        return deciding_ceilings(format, str(chosen), serving=True, threads=threads)

    return DeviceProbe(chosen.type, device_facts(chosen), framework_facts(), ceilings, deciding, auto_note(device))
