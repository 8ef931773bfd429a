"""Evidence of fine-tuning: the adapter that is really there, parameters that are trained, weights at the start."""

from __future__ import annotations

from collections import Counter

import torch
from torch import nn

from twinlens.executors.in_process.weights import weights_hash
from twinlens.executors.torch.evidence.memory import elements_of
from twinlens.executors.torch.evidence.subject import OpenTrainer
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.spec.model.any_model import Model
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.units import COUNT


def trainable(model: nn.Module) -> Estimate:
    """How many parameters take a gradient, tied ones once."""
    counted = sum(elements_of(parameter) for parameter in model.parameters() if parameter.requires_grad)
    return Estimate(float(counted), COUNT, "parameters that take a gradient", "measured", n=1)


def method_words(trainer: OpenTrainer) -> str:
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
