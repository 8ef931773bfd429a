"""A model without memory, that is divided first and then filled with the weights that `build_model` would have drawn.

Random weights come from one generator, which every draw moves on: constructors draw, then the library initialises each
module. While the model is made, each draw is made once more into a tensor of that size, which is thrown away, and the
generator's state before each module is kept; afterwards each module is drawn whole from there, and every rank keeps its
part. The most that is whole at a time is one module's own parameters. Needs torch and transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from twinlens.executors.protocol import Say
from twinlens.executors.torch.model.build import DRAWS, build_model
from twinlens.spec.model.any_model import Model


@dataclass(frozen=True, slots=True)
class Drawn:
    """A module whose own parameters are drawn from this state of the generator by its owner, a model of the library."""

    module: nn.Module
    owner: Any
    state: torch.Tensor


@dataclass(slots=True)
class Recipe:
    """How to fill the modules of one model, in the order in which they are drawn."""

    ref: Model
    attention: str
    device: torch.device
    drawn: list[Drawn] = field(default_factory=list)


def bare_model(ref: Model, attention: str, seed: int, device: torch.device) -> tuple[nn.Module, Recipe]:
    """The model on no device, and how it is filled on `device`. Raises BadInput (TL201, TL202) as `build_model`."""
    recipe = Recipe(ref, attention, device)
    with _noted(recipe):
        model = build_model(ref.model_copy(update={"folder": None}), attention, seed, torch.device("meta"))
    return model, recipe


def fill(model: nn.Module, recipe: Recipe, say: Say) -> None:
    """Give `model`, or what this rank has of it, memory and weights, after it was divided: of a folder those of its
    files, which pass through the host's memory once, and through a board's module by module."""
    model.to_empty(device=recipe.device)
    for part in model.modules():
        if hasattr(part, "tie_weights"):  # two modules that share a weight have one each by now
            part.tie_weights(recompute_mapping=False)
    whole_of = _weights(recipe, say)
    mine, known = {id(module) for module in model.modules()}, set[int]()
    for number, each in enumerate(recipe.drawn):
        if number % 50 == 0:  # a sign of life: of a large model this takes minutes
            say("placing weights")
        whole = whole_of(each)
        if id(each.module) in mine:
            _put(each.module, whole, known)


def fill_each(recipe: Recipe, done: Callable[[nn.Module], None], say: Say) -> None:
    """Give each module of an undivided model its own weights whole, and hand it on: `done` keeps a part of them, before
    the next module is drawn. Weights that modules share stay shared."""
    whole_of, known = _weights(recipe, say), dict[int, nn.Parameter]()
    for each in recipe.drawn:
        module, whole = each.module, whole_of(each)
        for name in module._buffers.keys() & whole.keys():
            module._buffers[name] = whole[name]
        for name, bare in module._parameters.items():
            if bare is not None:
                module._parameters[name] = known.setdefault(id(bare), nn.Parameter(whole[name]))
        done(module)


def _whole(each: Drawn, device: torch.device) -> dict[str, torch.Tensor]:
    """The module's own parameters and buffers as the library draws them; the module itself stays as it is."""
    module = each.module
    parameters, buffers = dict(module._parameters), dict(module._buffers)

    def empty(like: Any) -> Any:
        return None if like is None else torch.empty(like.shape, dtype=like.dtype, device=device)

    _set_state(device, each.state)
    with device, torch.no_grad():
        for name, like in parameters.items():
            module._parameters[name] = None if like is None else nn.Parameter(empty(like), requires_grad=False)
        for name, like in buffers.items():
            module._buffers[name] = empty(like)
        try:
            each.owner._init_weights(module)
            held = {**module._parameters, **module._buffers}
        finally:
            module._parameters.update(parameters)
            module._buffers.update(buffers)
    return {name: value.detach() for name, value in held.items() if value is not None}


def _put(module: nn.Module, whole: dict[str, torch.Tensor], known: set[int]) -> None:
    """This rank's part of each into the module; of a weight that two modules share, what the first of them drew."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    for name, buffer in module._buffers.items():
        if buffer is not None:
            buffer.copy_(whole[name])
    own = {name: p for name, p in module._parameters.items() if p is not None and id(p) not in known}
    known.update(map(id, own.values()))
    for name, parameter in own.items():
        if hasattr(parameter, "placements"):
            options = StateDictOptions(full_state_dict=True, strict=False)
            set_model_state_dict(module, {name: whole[name]}, options=options)
        else:
            with torch.no_grad():
                parameter.copy_(whole[name])


def _weights(recipe: Recipe, say: Say) -> Callable[[Drawn], dict[str, torch.Tensor]]:
    """Whole weights of one module after the other, on the device: drawn, or of the folder."""
    if recipe.ref.folder is None:
        return lambda each: _whole(each, recipe.device)
    root = recipe.drawn[-1].module  # the outermost is drawn last
    read = partial(build_model, recipe.ref, recipe.attention, 0, torch.device("cpu"))
    of_folder = read_once(root, read, recipe.device, say)
    return lambda each: of_folder(each.module)


@contextmanager
def _noted(recipe: Recipe) -> Iterator[None]:
    """While a model is made without memory, draw what it would draw, and note where each module's draws begin."""
    from transformers import PreTrainedModel

    usual, seen = PreTrainedModel.init_weights, set[int]()

    def init_weights(model: Any) -> None:  # of a model without memory, the library's own does nothing but the last line
        for module, owner in _in_order(model, model):
            if id(module) not in seen:
                seen.add(id(module))
                each = Drawn(module, owner, _state(recipe.device))
                recipe.drawn.append(each)
                if recipe.ref.folder is None:
                    _whole(each, recipe.device)
        model.tie_weights(recompute_mapping=False)

    PreTrainedModel.init_weights = init_weights
    try:
        with _DrawnElsewhere(recipe.device):
            yield
    finally:
        PreTrainedModel.init_weights = usual


def _in_order(module: nn.Module, owner: Any) -> Iterator[tuple[nn.Module, Any]]:
    """As the library goes: children first, each with the innermost model of the library around it."""
    from transformers import PreTrainedModel

    for child in module.children():
        yield from _in_order(child, child if isinstance(child, PreTrainedModel) else owner)
    yield module, owner


class _DrawnElsewhere(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed by the type checker
    """Every normal or uniform draw into a tensor without memory moves the generator of `device` on as a real one."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in DRAWS and args[0].device.type == "meta":
            real = torch.empty(args[0].shape, dtype=args[0].dtype, device=self._device)
            function(real, *args[1:], **(kwargs or {}))
            return args[0]
        return function(*args, **(kwargs or {}))


def _state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_state(device: torch.device, state: torch.Tensor) -> None:
    torch.cuda.set_rng_state(state, device) if device.type == "cuda" else torch.set_rng_state(state)


# Weights of a folder, read into the host's memory by one rank alone and sent to the others module by module.

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
