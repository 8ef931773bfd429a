"""Tokens of a call that are no padding, by its attention mask. Needs torch."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


def place_of_mask(model: nn.Module) -> int | None:
    """Where among the arguments of `forward` the attention mask stands; None where none is called so."""
    try:
        names = list(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):
        return None
    return names.index("attention_mask") if "attention_mask" in names else None


def mask_in(args: Any, kwargs: Any, place: int | None) -> Any:
    """The attention mask of one call: by its name, by its place, or in a batch that is given whole."""
    if (mask := kwargs.get("attention_mask")) is not None:
        return mask
    if place is not None and place < len(args):
        return args[place]
    return args[0].get("attention_mask") if args and isinstance(args[0], Mapping) else None


def unpadded(mask: Any, size: tuple[int, int]) -> Any:
    """Tokens that are no padding, as a tensor that nobody waits for; None without a mask of that size."""
    if not isinstance(mask, torch.Tensor) or mask.ndim != 2 or mask.numel() != size[1]:
        return None
    return (mask != 0).sum()
