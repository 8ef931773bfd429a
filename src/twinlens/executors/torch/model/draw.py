"""Random weights drawn in fp32 and kept in the format asked for: the same numbers, rounded, at half the memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_CHUNK = 1 << 20  # elements; a multiple of 16, the block in which a processor's generator fills a tensor
_BLOCK = 16
_DRAWS = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)


class DrawnInFp32(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed by the type checker
    """Every normal or uniform draw into a 16-bit tensor is one of fp32, chunk by chunk, and then rounded."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        narrow = args[0] if function in _DRAWS else None
        if narrow is None or narrow.dtype not in (torch.bfloat16, torch.float16) or narrow.device.type == "meta":
            return function(*args, **(kwargs or {}))
        _draw(narrow, lambda wide: function(wide, *args[1:], **(kwargs or {})))
        return narrow


def _draw(narrow: torch.Tensor, fill: Callable[[torch.Tensor], Any]) -> None:
    if narrow.device.type != "cpu" or not narrow.is_contiguous():  # a GPU's generator counts by calls
        wide = torch.empty_like(narrow, dtype=torch.float32)
        fill(wide)
        narrow.copy_(wide)
        return
    flat = narrow.view(-1)
    for begin, end in _chunks(flat.numel()):
        wide = torch.empty(end - begin)
        fill(wide)
        flat[begin:end] = wide


def _chunks(elements: int) -> list[tuple[int, int]]:
    """Chunks of blocks; what would be less than a block at the end belongs to the chunk before."""
    count = max(1, math.ceil((elements - _BLOCK) / _CHUNK))
    edges = [place * _CHUNK for place in range(count)] + [elements]
    return list(pairwise(edges))
