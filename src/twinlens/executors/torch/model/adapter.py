"""Adapters of PEFT on a decoder's linear layers, and weights below them in NF4. Needs the extra `finetune`.

PEFT keeps adapters in fp32 whatever the format of the weights below (its `autocast_adapter_dtype`).
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from twinlens.errors import BadInput
from twinlens.spec.model.any_model import Model, is_text
from twinlens.spec.workload.workload import Adapter, Method

_SPREAD = 0.02
"""Of the random values of B: with those that PEFT draws for A it moves weights by some per cent."""


def with_adapter(
    model: nn.Module, ref: Model, adapter: Adapter, method: Method, seed: int, dtype: torch.dtype
) -> nn.Module:
    """The model with an adapter beside it, of which only the adapter is trained; of `qlora`, on weights in NF4.

    `dtype`: that of the products, in which NF4 weights are made whole. Raises BadInput (TL202) for a model that cannot
    have an adapter, and for layers that it does not have.
    """
    targets = _targets(model, ref, adapter)
    if method == "qlora":
        _into_nf4(model, dtype)
    return _beside(model, targets, adapter, method, seed)


def with_random_adapter(model: nn.Module, ref: Model, adapter: Adapter, seed: int) -> nn.Module:
    """The model with an adapter that changes its answers: both of its matrices are random, where a new one has zeros.

    Raises BadInput (TL202) as `with_adapter`.
    """
    served = _beside(model, _targets(model, ref, adapter), adapter, "lora", seed)
    with torch.no_grad():
        for name, parameter in served.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(0.0, _SPREAD)
    return served.requires_grad_(False).eval()


def as_served(model: nn.Module, *, merged: bool) -> nn.Module:
    """The model without PEFT's shell around it: its adapter added to the weights, or beside them in every layer."""
    if not merged:
        inside: nn.Module = model.base_model.model
        return inside
    whole: nn.Module = model.merge_and_unload()
    return whole


def _targets(model: nn.Module, ref: Model, adapter: Adapter) -> tuple[str, ...]:
    if not is_text(ref):
        raise BadInput(
            f"an adapter stands beside the layers of a decoder, and {ref.name} is none; take "
            'workload.method = "full", and no workload.adapter',
            code="TL202",
        )
    layers = linear_layers(model)
    targets = layers if adapter.target_modules == "all-linear" else adapter.target_modules
    if missing := [name for name in targets if name not in layers]:
        raise BadInput(
            f"workload.adapter.target_modules names {', '.join(map(repr, missing))}, and {ref.name} has no such linear "
            f"layer; it has {', '.join(layers)}",
            code="TL202",
        )
    return targets


def _beside(model: nn.Module, targets: tuple[str, ...], adapter: Adapter, method: Method, seed: int) -> nn.Module:
    peft = _library("peft")
    torch.manual_seed(seed)
    config = peft.LoraConfig(
        r=adapter.r,
        lora_alpha=adapter.lora_alpha,
        lora_dropout=adapter.lora_dropout,
        target_modules=list(targets),
        use_dora=method == "dora",
        task_type="CAUSAL_LM",
    )
    tuned: nn.Module = peft.get_peft_model(model, config)
    return tuned


def linear_layers(model: nn.Module) -> tuple[str, ...]:
    """The names that layers give their linear parts, in module order; the output head is none of them."""
    head = model.get_output_embeddings()
    names = (name for name, part in model.named_modules() if isinstance(part, nn.Linear) and part is not head)
    return tuple(dict.fromkeys(name.rpartition(".")[2] for name in names))


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that take a gradient: of a model with an adapter, the adapter's alone."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _into_nf4(model: nn.Module, dtype: torch.dtype) -> None:
    """Every linear layer but the output head in NF4 with scales in 8 bits, as QLoRA has it (arXiv 2305.14314)."""
    four_bits = _library("bitsandbytes").nn
    head, device = model.get_output_embeddings(), next(model.parameters()).device
    for parent in list(model.modules()):
        for name, part in list(parent.named_children()):
            if isinstance(part, nn.Linear) and part is not head:
                packed = four_bits.Linear4bit(
                    part.in_features,
                    part.out_features,
                    bias=part.bias is not None,
                    compute_dtype=dtype,
                    quant_type="nf4",
                    device="meta",
                )
                packed.weight = four_bits.Params4bit(part.weight.data, requires_grad=False, quant_type="nf4")
                packed.bias = part.bias
                # Else an evaluation repacks the weight for AVX-512, and no gradient passes that in later steps.
                packed.support_avx512bf16_for_cpu = False
                setattr(parent, name, packed.to(device))  # the move is what packs the weight


def _library(name: str) -> Any:
    with _no_code_from_a_hub():
        return importlib.import_module(name)


@contextmanager
def _no_code_from_a_hub() -> Iterator[None]:
    """bitsandbytes, which PEFT imports, fetches a kernel from a hub if the package `kernels` is there."""
    before = {"kernels": sys.modules["kernels"]} if "kernels" in sys.modules else {}
    sys.modules["kernels"] = None  # type: ignore[assignment]
    said = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(said)
        del sys.modules["kernels"]
        sys.modules.update(before)
