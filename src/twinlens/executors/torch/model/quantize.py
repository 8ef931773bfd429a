"""Lower-precision linear layers for inference, on kernels that torch itself ships.

int8 and int4 weight-only use ATen's packed products, which on a CPU are several times as fast as torchao's eager path
(measured in docs/decisions/quantised-kernels.md). `stored_format` on each class tells the executor record what the
weights really are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from twinlens.errors import BadInput
from twinlens.record.finding import Finding

_GROUP = 32


class Int8WeightLinear(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """y = x · (q · s)ᵀ with int8 q and one scale per output channel; x in bf16, products accumulate in fp32."""

    stored_format = "int8"
    widths = (_GROUP, 1)  # inputs and outputs are multiples of these

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.data.float()
        scale = weight.abs().amax(dim=1).clamp(min=1e-12) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8))
        self.register_buffer("scale", scale.to(torch.bfloat16))
        self.bias = linear.bias
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, self.in_features)
        if rows.shape[0] <= 32:
            out = torch._weight_int8pack_mm(rows, self.weight, self.scale)
        else:  # many rows: the packed kernel gains nothing over expanding the weights once and using the bf16 product
            out = (rows @ self.weight.to(rows.dtype).t()) * self.scale
        out = out.reshape(*x.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


class Int4WeightLinear(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """int4 weights in groups of 32 along the input, a bf16 scale and zero point each; x in bf16. CPU only."""

    stored_format = "int4"
    widths = (_GROUP, 16)

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.data.float()
        out_features, in_features = weight.shape
        groups = weight.reshape(out_features, in_features // _GROUP, _GROUP)
        low, high = groups.amin(dim=2), groups.amax(dim=2)
        scale = ((high - low) / 15).clamp(min=1e-8)
        codes = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15).to(torch.int32)
        # The kernel computes (code - 8) * scale + zero.
        zero = low + 8 * scale
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.reshape(out_features, in_features), 1)
        self.register_buffer("weight", packed)
        self.register_buffer(
            "scale_zero", torch.stack([scale, zero], dim=-1).to(torch.bfloat16).transpose(0, 1).contiguous()
        )
        self.bias = linear.bias
        self.in_features, self.out_features = in_features, out_features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, self.in_features)
        # The last token of each of several prompts is a strided slice, and the kernel refuses one.
        out = torch.ops.aten._weight_int4pack_mm_for_cpu(rows.contiguous(), self.weight, _GROUP, self.scale_zero)
        out = out.reshape(*x.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


class Fp8Linear(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """e4m3 weights and activations with one scale per row, computed by the GPU's own fp8 product."""

    stored_format = "fp8-e4m3"
    widths = (16, 16)

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, scale = _to_fp8(linear.weight.data.float())
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.bias = linear.bias
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, row_scale = _to_fp8(x.reshape(-1, self.in_features).float())
        out = torch._scaled_mm(
            rows,
            self.weight.t(),
            scale_a=row_scale,
            scale_b=self.scale.t(),
            bias=self.bias,
            out_dtype=torch.bfloat16,
        )
        return out.reshape(*x.shape[:-1], self.out_features)


def apply_precision(model: nn.Module, name: str) -> nn.Module:
    """The model made ready to run at a precision. Raises BadInput where this device or model cannot."""
    if name in ("fp32", "tf32"):
        return model
    if name in ("bf16", "fp16"):
        return cast(model, torch.bfloat16 if name == "bf16" else torch.float16)
    _refuse_experts_of_unknown_kind(model, name)
    if not any(isinstance(m, nn.Linear) for m in model.modules()):
        raise BadInput(f"precision {name!r} quantises linear layers and this model has none; use bf16", code="TL203")
    if name == "int8-dynamic":
        return _dynamic(model)
    device = next(model.parameters()).device
    if name == "int8-weight" and device.type == "cuda":
        # One thread per output, products in fp32, whatever the weights are: slower than bf16 by design (torch 2.13).
        raise BadInput(
            "precision 'int8-weight' has no fast kernel in torch for a GPU (its own expands to fp32); use bf16 or fp8, "
            "or serve an int8 model with vllm",
            code="TL203",
        )
    layer = _LAYERS[name]
    _try(layer, name, device)
    return _replace_linears(cast(model, torch.bfloat16), layer, name)


def left_wide(model: nn.Module, name: str) -> Finding | None:
    """The finding on linear layers that the kernel cannot do and that stay in bf16."""
    if name not in _LAYERS:
        return None
    tied = _embeddings(model)
    linears = [m for m in model.modules() if isinstance(m, nn.Linear) and id(m.weight) not in tied]
    if not linears:
        return None
    sizes = sorted({f"{m.out_features} × {m.in_features}" for m in linears})
    need_in, need_out = _LAYERS[name].widths
    numbers = {"layers": len(linears), "sizes": sizes[:4], "divide_in": need_in, "divide_out": need_out}
    return Finding("layers-left-wide", "notes", name, numbers)


def _refuse_experts_of_unknown_kind(model: nn.Module, name: str) -> None:
    split_experts(model)
    fused, whole = fused_experts(model), sum(p.numel() for p in model.parameters())
    if fused > 0.1 * whole:
        raise BadInput(
            f"precision {name!r} cannot be had for this model: {fused / whole:.0%} of its weights are experts in fused "
            "tensors, for which torch has no such kernel; use bf16",
            code="TL203",
        )


def cast(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The model in 16 bits, but for tables that are computed and not learned, as `from_pretrained` leaves them.

    Rotary frequencies rounded to bf16 would turn a thousandth token's angle by radians.
    """
    tables = [(m, name, m._buffers[name]) for m in model.modules() for name in m._non_persistent_buffers_set]
    model.to(dtype)
    for module, name, table in tables:
        module._buffers[name] = table
    return model


def _dynamic(model: nn.Module) -> nn.Module:
    if next(model.parameters()).device.type != "cpu":
        raise BadInput("precision 'int8-dynamic' runs on the CPU only; on a GPU use int8-weight or fp8", code="TL203")
    with warnings.catch_warnings():
        # Deprecated in favour of torchao, whose eager dynamic int8 is several times slower on a CPU today.
        warnings.simplefilter("ignore")
        # In place: a copy of the fp32 model would need its memory twice.
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8, inplace=True)


def _replace_linears(model: nn.Module, layer: Any, precision: str) -> nn.Module:
    tied, replaced = _embeddings(model), 0
    need_in, need_out = layer.widths
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            # A projection tied to the embedding stays in bf16: the embedding needs its rows as they are.
            if not isinstance(child, nn.Linear) or id(child.weight) in tied:
                continue
            if child.in_features % need_in == 0 and child.out_features % need_out == 0:
                setattr(parent, name, layer(child))
                replaced += 1
    if not replaced:
        raise BadInput(
            f"precision {precision!r} fits no linear layer of this model: its kernel wants inputs that divide by "
            f"{need_in} and outputs by {need_out}; use bf16",
            code="TL203",
        )
    return model


def _embeddings(model: nn.Module) -> set[int]:
    return {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}


def _try(layer: Callable[[nn.Linear], nn.Module], name: str, device: torch.device) -> None:
    try:
        trial = layer(nn.Linear(64, 64, bias=False).to(device, torch.bfloat16))
        trial(torch.ones(1, 64, dtype=torch.bfloat16, device=device))
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        cause = str(error).splitlines()[0][:120]
        raise BadInput(
            f"precision {name!r} cannot run on {device.type} with this torch ({cause})", code="TL203"
        ) from None


def _to_fp8(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    most = torch.finfo(torch.float8_e4m3fn).max
    scale = rows.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / most
    return (rows / scale).to(torch.float8_e4m3fn), scale


_LAYERS: dict[str, Any] = {"int8-weight": Int8WeightLinear, "int4-weight": Int4WeightLinear, "fp8": Fp8Linear}


# Experts as linear layers of their own, so that a mixture of experts is quantised like any other model. transformers
# keeps a layer's experts in two 3-D tensors and multiplies them in one grouped product, for which torch has no int8 or
# int4 kernel. Left alone, most of such a model would stay in 16 bits under the name of a narrower format.


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


def refuse_odd_rows(rows: int) -> None:
    """Raises BadInput (TL202): a gradient of weights is a product over rows, which the kernel wants in sixteens too."""
    if rows % 16:
        raise BadInput(
            f"fp8 training has {rows} tokens a microbatch, which do not divide by 16; change point.microbatch or "
            "workload.seq_len",
            code="TL202",
        )


def convert_to_fp8(model: nn.Module) -> None:
    """Products of linear layers in fp8. Raises BadInput (TL203) without torchao."""
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    except ImportError:
        raise BadInput("training in fp8 needs torchao: pip install 'twinlens[fp8]'", code="TL203") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        convert_to_float8_training(
            model, config=Float8LinearConfig.from_recipe_name("rowwise"), module_filter_fn=can_be_fp8
        )


def can_be_fp8(module: nn.Module, name: str) -> bool:
    """Linear layers but the output head, where both widths divide by 16 as the kernel wants."""
    if "lm_head" in name or not isinstance(module, nn.Linear):
        return False
    return bool(module.in_features % 16 == 0 and module.out_features % 16 == 0)
