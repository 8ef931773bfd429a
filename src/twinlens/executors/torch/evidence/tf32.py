"""Detect tf32 by arithmetic: a number that tf32 cannot hold survives an fp32 product or does not.

Names of kernels do not tell: cuBLAS's usual TF32 kernels do not say "tf32", and a name says nothing of the products it
did not run. tf32 keeps 10 bits of mantissa, so 1 + 2**-12 becomes 1 on the way into the product; fp32 keeps 23. The
products tried are the model's own: which kernel the library takes depends on the sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from twinlens.executors.torch.evidence.kernel_name import is_product, kernel_format
from twinlens.executors.torch.evidence.trace import Kernel

_BIT = 2.0**-12
_MOST_BYTES = 512 * 2**20  # of one product tried: fewer rows of a larger one take the same kernels


@dataclass(frozen=True, slots=True)
class Product:
    """One linear layer's product, or a convolution's: `rows` × `inner` by `inner` × `columns`, FLOP in proportion.

    `convolution`: (input shape, weight shape, stride, padding) where it is one.
    """

    rows: int
    columns: int
    inner: int
    convolution: tuple[Any, ...] | None = None

    @property
    def flop(self) -> float:
        return 2.0 * self.rows * self.columns * self.inner


@contextmanager
def products_seen(model: nn.Module) -> Iterator[Counter[Product]]:
    """Collects the products of every linear layer and convolution that runs in the block, with how often each did."""
    products: Counter[Product] = Counter()

    def linear(module: Any, inputs: tuple[torch.Tensor, ...], _: Any) -> None:
        products[Product(inputs[0].numel() // module.in_features, module.out_features, module.in_features)] += 1

    def convolution(module: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        shapes = (tuple(inputs[0].shape), tuple(module.weight.shape), module.stride, module.padding)
        per_output = module.weight[0].numel()
        products[Product(output.numel() // output.shape[1], output.shape[1], per_output, shapes)] += 1

    hooks = [
        module.register_forward_hook(linear if isinstance(module, nn.Linear) else convolution)
        for module in model.modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    ]
    try:
        yield products
    finally:
        for hook in hooks:
            hook.remove()


def fp32_computed_in(products: Mapping[Product, int], device: torch.device | str) -> dict[str, float]:
    """Share of FLOP that is computed in "fp32" and in "tf32" when these products run in fp32 now, on this device."""
    flop: Counter[str] = Counter()
    with torch.no_grad():
        for product, count in products.items():
            flop[_computed_in(product, device)] += product.flop * count  # type: ignore[assignment]
    total = sum(flop.values())
    return {fmt: amount / total for fmt, amount in flop.items()} if total else {}


def tf32_by_name(kernels: Sequence[Kernel]) -> float | None:
    """Share (0-1) of matrix kernels' device time whose names are those of TF32 kernels; None where none was seen."""
    times = [(k.self_time_s, kernel_format(k.name)) for k in kernels if k.on_device and is_product(k.name)]
    total = sum(time_s for time_s, _ in times)
    return sum(time_s for time_s, fmt in times if fmt == "tf32") / total if total else None


def _computed_in(product: Product, device: torch.device | str) -> str:
    if product.convolution is not None:
        return _convolution_in(product.convolution, device)
    rows = max(1, min(product.rows, _MOST_BYTES // (4 * max(product.columns, product.inner))))
    x = torch.zeros(rows, product.inner, device=device)
    weight = torch.zeros(product.columns, product.inner, device=device)
    x[:, 0], weight[:, 0] = 1.0 + _BIT, 1.0
    return _format_kept(lambda: F.linear(x, weight))


def _convolution_in(shapes: tuple[Any, ...], device: torch.device | str) -> str:
    size, weight_size, stride, padding = shapes
    x, weight = torch.zeros(size, device=device), torch.zeros(weight_size, device=device)
    middle = [side // 2 for side in weight_size[2:]]
    x[:, 0], weight[:, 0, middle[0], middle[1]] = 1.0 + _BIT, 1.0
    groups = size[1] // weight_size[1]
    return _format_kept(lambda: F.conv2d(x, weight, stride=stride, padding=padding, groups=groups))


def _format_kept(call: Callable[[], torch.Tensor]) -> str:
    """The format that the largest result kept: padding gives zeros, and those say nothing."""
    return "fp32" if float(call().max()) > 1.0 + _BIT / 2 else "tf32"
