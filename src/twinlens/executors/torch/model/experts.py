"""Experts as linear layers of their own, so that a mixture of experts is quantised like any other model. Needs torch.

transformers keeps a layer's experts in two 3-D tensors and multiplies them in one grouped product, for which torch has
no int8 or int4 kernel. Left alone, most of such a model would stay in 16 bits under the name of a narrower format.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class ExpertLinears(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """The same function as the module it is made from; the weights are views of that module's, not copies."""

    def __init__(self, experts: Any) -> None:
        super().__init__()
        self.up = nn.ModuleList(_linear(weight) for weight in experts.gate_up_proj.data)
        self.down = nn.ModuleList(_linear(weight) for weight in experts.down_proj.data)
        self.act_fn = experts.act_fn

    def forward(
        self, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ) -> torch.Tensor:
        """(tokens, hidden) from (tokens, hidden), and each token's experts and their weights, (tokens, k) both."""
        out = torch.zeros_like(hidden_states)
        for expert in top_k_index.unique().tolist():
            token, place = torch.where(top_k_index == expert)
            gate, up = self.up[expert](hidden_states[token]).chunk(2, dim=-1)
            output = self.down[expert](self.act_fn(gate) * up) * top_k_weights[token, place, None]
            out.index_add_(0, token, output.to(out.dtype))
        return out


def split_experts(model: nn.Module) -> bool:
    """Replace every module of fused experts by one of linear layers. Whether there was any."""
    is_split = False
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if _is_experts(child):
                setattr(parent, name, ExpertLinears(child))
                is_split = True
    return is_split


def fused_experts(model: nn.Module) -> int:
    """Weights (a count) in 3-D tensors, which no linear layer holds."""
    return sum(p.numel() for p in model.parameters() if p.ndim == 3)


def _is_experts(module: nn.Module) -> bool:
    weights = [getattr(module, name, None) for name in ("gate_up_proj", "down_proj")]
    fused = all(isinstance(weight, nn.Parameter) and weight.ndim == 3 for weight in weights)
    biased = getattr(module, "gate_up_proj_bias", None) is not None or getattr(module, "is_transposed", False)
    return fused and not biased and hasattr(module, "act_fn")


def _linear(weight: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    layer.weight = nn.Parameter(weight, requires_grad=False)
    return layer
