"""Megatron's plan on torch's DTensor: columns of the first products, rows of the second; table and head by
vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from twinlens.errors import BadInput

_COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
_ROWS = ("o_proj", "down_proj")


def split_layers(model: nn.Module, mesh: Any) -> None:
    """Split every layer over the mesh, in place. Raises BadInput (TL202) for a model without layers of these names."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan: dict[str, Any] = {}
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if isinstance(module, nn.Linear) and last in _COLUMNS:
            plan[name] = ColwiseParallel()
        elif isinstance(module, nn.Linear) and last in _ROWS:
            plan[name] = RowwiseParallel()
    if not plan:
        raise BadInput(
            'this model has no layers named as tensor parallelism needs them (q_proj … down_proj); take "ddp" or '
            '"fsdp2" as executor.options.parallel, without executor.options.tensor',
            code="TL202",
        )
    is_tied = getattr(model.config, "tie_word_embeddings", False)
    if not is_tied:
        plan["model.embed_tokens"] = RowwiseParallel(input_layouts=Replicate())
        plan["lm_head"] = ColwiseParallel(output_layouts=Replicate())
    parallelize_module(model, mesh, plan)


def keep_own_gradients(model: nn.Module) -> None:
    """Cut each gradient as its weight is cut, where torch leaves it whole on every rank: that of the token table."""
    for parameter in model.parameters():
        if hasattr(parameter, "placements"):
            parameter.register_post_accumulate_grad_hook(_keep_own)


def _keep_own(parameter: torch.Tensor) -> None:
    gradient: Any = parameter.grad
    placements = parameter.placements
    if getattr(gradient, "placements", placements) != placements:
        parameter.grad = gradient.redistribute(placements=placements)
