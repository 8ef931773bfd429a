"""Weights of a folder, read into the host's memory by one rank alone and sent to the others module by module.

Needs torch.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import torch
import torch.distributed as dist
from torch import nn

from twinlens.executors.protocol import Say

_SIGN_OF_LIFE_S = 2.0
WholeWeights = Callable[[nn.Module], dict[str, torch.Tensor]]
"""The module's own parameters and buffers, whole; all ranks ask for the same modules in the same order."""


def read_once(root: nn.Module, read: Callable[[], nn.Module], device: torch.device, say: Say) -> WholeWeights:
    """Weights of the modules of `root` on `device`, as the model that `read` makes has them. Raises as `read`."""
    is_shared = dist.is_initialized() and dist.get_world_size() > 1
    loaded = _read_by_one(read, device, say) if is_shared else read()
    torch.manual_seed(0)  # reading has moved on the generator of the rank that read
    names = {id(module): name for name, module in root.named_modules()}

    def whole(module: nn.Module) -> dict[str, torch.Tensor]:
        found = own_tensors(module)
        mine = own_tensors(loaded.get_submodule(names[id(module)])) if loaded is not None else {}
        for name, like in found.items():
            if loaded is None:
                found[name] = torch.empty(like.shape, dtype=like.dtype, device=device)
            else:
                found[name] = mine[name].detach().to(device, like.dtype).contiguous()
            if is_shared:
                dist.broadcast(found[name], 0)
        return found

    return whole


def own_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers of the module itself, by name."""
    return {name: value for name, value in {**module._parameters, **module._buffers}.items() if value is not None}


def _read_by_one(read: Callable[[], nn.Module], device: torch.device, say: Say) -> nn.Module | None:
    """The model on the first rank, and None on the others, which say meanwhile that they are alive."""
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(read) if dist.get_rank() == 0 else None
        is_done = torch.zeros(1, dtype=torch.int32, device=device)
        while not is_done:
            say("reading weights")
            if reading is not None:
                is_done.fill_(bool(wait([reading], _SIGN_OF_LIFE_S).done))
            dist.broadcast(is_done, 0)
        return None if reading is None else reading.result()
