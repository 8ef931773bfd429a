"""Training in fp8: torchao's row-wise recipe on the linear layers that its kernel can do."""

from __future__ import annotations

import warnings

from torch import nn

from twinlens.errors import BadInput


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
