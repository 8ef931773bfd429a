"""Building a model: from a config with random weights, or from a local folder's safetensors. Never pickle, never code
from a model folder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from twinlens.errors import BadInput
from twinlens.executors.in_process.weights import SCALE, is_mxfp4, plain_config, refuse_unbuilt, refuse_unread
from twinlens.spec.model.any_model import Model, is_text
from twinlens.spec.model.quantised import scale_blocks
from twinlens.spec.model.shape import ResnetShape
from twinlens.system.processes import usable_cores


def set_threads(asked: int) -> int:
    """Pin the number of compute threads: one per physical core this process may use, unless asked otherwise."""
    threads = asked or usable_cores()
    torch.set_num_threads(threads)
    return threads


def build_model(
    ref: Model, attention: str, seed: int, device: torch.device, dtype: torch.dtype = torch.float32
) -> nn.Module:
    """The model in `dtype` on `device`. Weights: the folder's safetensors, or random ones that `seed` decides."""
    import transformers
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    refuse_unbuilt(ref)
    vision = not is_text(ref)
    auto = transformers.AutoModelForImageClassification if vision else transformers.AutoModelForCausalLM
    asked: dict[str, Any] = {} if isinstance(ref.shape, ResnetShape) else {"attn_implementation": attention}
    torch.manual_seed(seed)
    if ref.folder is None:
        try:
            config = _loaded_config(ref)
            with device, DrawnInFp32():
                model = auto.from_config(config, dtype=dtype, trust_remote_code=False, **asked)
        except (ValueError, TypeError, AttributeError, KeyError, StrictDataclassError) as wrong:
            raise _without_this_attention(ref, attention, wrong) from None
        return model.to(device)
    refuse_unread(ref)
    asked |= {"dtype": dtype, "local_files_only": True, "use_safetensors": True, "trust_remote_code": False}
    if is_mxfp4(ref):
        asked["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    try:
        model = _expanded(ref, auto, asked) if scale_blocks(ref.config) else auto.from_pretrained(ref.folder, **asked)
    except (OSError, ValueError, SafetensorError, StrictDataclassError) as error:
        if "attention implementation" in str(error):
            raise _without_this_attention(ref, attention, error) from None
        raise BadInput(
            f"the weights in {ref.folder} cannot be loaded ({str(error).splitlines()[0]}); "
            "it needs model.safetensors beside config.json",
            code="TL201",
        ) from None
    return model.to(device)


def _expanded(ref: Model, auto: Any, asked: dict[str, Any]) -> nn.Module:
    """The model of a folder in fp8 with scales for blocks, in 16 or 32 bits. transformers' own expansion takes the size
    of a block from the number of scales, which is another one where the last block of a matrix is cut."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(ref.folder, local_files_only=True, trust_remote_code=False)
    del config.quantization_config
    with torch.device("meta"):
        kind = type(auto.from_config(config, trust_remote_code=False))
    weights = weights_in_blocks(Path(str(ref.folder)), scale_blocks(ref.config) or (1, 1), asked["dtype"])
    model: nn.Module = kind.from_pretrained(None, config=config, state_dict=weights, **asked)
    return model


def weights_in_blocks(folder: Path, block: tuple[int, int], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """All tensors of a folder; those that have scales are multiplied by them in fp32, and are in `dtype` then."""
    from safetensors.torch import load_file

    found = {name: each for file in sorted(folder.glob("*.safetensors")) for name, each in load_file(file).items()}
    for name in [name for name in found if name.endswith(SCALE)]:
        scales, of = found.pop(name).float(), name.removesuffix(SCALE)
        for dim, size in zip((-2, -1), block, strict=True):
            scales = scales.repeat_interleave(size, dim).narrow(dim, 0, found[of].shape[dim])
        found[of] = found[of].float().mul_(scales).to(dtype)
    return found


def _loaded_config(ref: Model) -> Any:
    """The config as transformers reads it from a file: infinity is written `{"__float__": "Infinity"}` there."""
    import transformers

    with TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(plain_config(ref)), encoding="utf-8")
        return transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _without_this_attention(ref: Model, attention: str, wrong: Exception) -> BadInput:
    """Sinks, or scores that are capped (Gemma 2), are nothing that fused attention computes."""
    if "attention implementation" not in str(wrong):
        return BadInput(f"transformers cannot build {ref.name}: {str(wrong).splitlines()[0][:120]}", code="TL202")
    return BadInput(
        f'{ref.name} has no {attention} attention in transformers; set executor.options.attention = "eager", or serve '
        'it instead (executor.kind = "vllm")',
        code="TL202",
    )


def parameter_count(ref: Model) -> int:
    """Parameters of the model, counted on one without memory."""
    bare = build_model(ref.model_copy(update={"folder": None}), "eager", 0, torch.device("meta"))
    return sum(parameter.numel() for parameter in bare.parameters())


def drawn_by(device: torch.device) -> str:
    """The generator of random weights, for `weights_hash`: 16 bits are drawn as fp32 is, and then rounded."""
    return device.type if device.type != "cpu" else ""


def linear_shapes(model: nn.Module) -> list[tuple[int, int]]:
    """(out, in) of every matrix product that a token passes, in module order."""
    return [(m.out_features, m.in_features) for m in model.modules() if isinstance(m, nn.Linear)]


def transpose_storage(model: nn.Module) -> None:
    """Store each linear weight column by column, same values and shape.

    One row times W.T then reads memory in the order it lies in; on CPUs the fp32 product is up to 1.5 times as fast.
    A weight shared with the embedding stays: looking up its rows would then stride.
    """
    shared = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear) and id(module.weight) not in shared:
            stored = module.weight.data.t().contiguous().t()
            module.weight = nn.Parameter(stored, requires_grad=False)


def recompute_activations(model: nn.Module) -> None:
    """Have the backward pass compute each layer's activations again, so that they need not be kept."""
    enable = getattr(model, "activation_checkpointing_enable", None)  # the name from transformers 5.23 on
    (enable or model.gradient_checkpointing_enable)()


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what it was given; the CPU always has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


_CHUNK = 1 << 20  # elements; a multiple of 16, the block in which a processor's generator fills a tensor
_BLOCK = 16
DRAWS = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)


class DrawnInFp32(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed by the type checker
    """Every normal or uniform draw into a 16-bit tensor is one of fp32, chunk by chunk, and then rounded."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        narrow = args[0] if function in DRAWS else None
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
