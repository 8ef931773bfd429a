"""Compare the formats held and the formats computed in with those declared, per tensor class and phase. Needs torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from twinlens.executors.in_process.precision_check import over_phases, precision_checks
from twinlens.executors.torch.evidence.memory import Resident, hardware_formats
from twinlens.executors.torch.evidence.trace import Kernel, compute_formats, is_product, kernel_format
from twinlens.record.executor.record import PrecisionCheck
from twinlens.spec.precision import Precision


def check_precision(
    declared: Mapping[str, str],
    resident: Resident,
    kernels: Sequence[Kernel],
    device: str = "cpu",
    hardware: Mapping[str, str] | None = None,
    fp32_is: Mapping[str, float] | None = None,
) -> tuple[PrecisionCheck, ...]:
    """One check per declared tensor class ("compute" among them, if given), against memory and what ran.

    `declared` is Precision.classes(lens), with "compute" added by the caller. A class nobody can see
    (accumulation is inside the kernel) is "unknown", never "agrees". `fp32_is`: see `compute_formats`.
    """
    support = dict(hardware_formats(device) if hardware is None else hardware)
    ran = compute_formats(kernels, fp32_is)
    blind = bool(kernels) and not any(kernel.self_time_s for kernel in kernels)
    missing = f"the profiler gave no {'device events' if blind else 'matrix product'}"
    return precision_checks(declared, resident, ran, support, missing)


def check_phases(
    declared: Mapping[str, str],
    resident: Resident,
    phases: Mapping[str, Sequence[Kernel]],
    device: str = "cpu",
    fp32_is: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[PrecisionCheck, ...]:
    """The same over everything that runs (prefill and decode): one check per tensor class.

    One phase that differs makes the whole differ; "agrees" wants every phase to have been seen.
    """
    witnessed = fp32_is or {}
    each = {
        phase: check_precision(declared, resident, kernels, device, None, witnessed.get(phase))
        for phase, kernels in phases.items()
    }
    return over_phases(each)


def witnessed_checks(
    regime: Precision,
    lens: Any,
    resident: Any,
    kernels: Mapping[str, Sequence[Kernel]],
    products: Mapping[str, Mapping[Product, int]],
    device: torch.device,
) -> tuple[PrecisionCheck, ...]:
    asked = regime.classes(lens) | {"compute": regime.compute}
    if device.type != "cuda" or regime.compute not in ("fp32", "tf32"):
        return check_phases(asked, resident, kernels, str(device))
    tried = {phase: fp32_computed_in(products.get(phase, {}), device) for phase in kernels}
    checks = check_phases(asked, resident, kernels, str(device), tried)
    named = {phase: share for phase, seen in kernels.items() if (share := tf32_by_name(seen)) is not None}
    return tuple(_witnessed(check, tried, named) for check in checks)


def _witnessed(
    check: PrecisionCheck, tried: Mapping[str, Mapping[str, float]], named: Mapping[str, float]
) -> PrecisionCheck:
    """The evidence with what the arithmetic and the kernels' names say; where they disagree, that is said."""
    if check.tensor_class != "compute":
        return check
    words = [f"{phase} {shares.get('tf32', 0.0):.0%}" for phase, shares in tried.items()]
    names = [f"{phase} {share:.0%}" for phase, share in named.items()]
    witness = f"tf32 by arithmetic at the model's shapes: {', '.join(words)}"
    witness += f"; by names of kernels: {', '.join(names)}" if names else ""
    return replace(check, evidence=f"{check.evidence}; {witness}")


# Detect tf32 by arithmetic: a number that tf32 cannot hold survives an fp32 product or does not. Names of kernels do
# not tell: cuBLAS's usual TF32 kernels do not say "tf32", and a name says nothing of the products it did not run. tf32
# keeps 10 bits of mantissa, so 1 + 2**-12 becomes 1 on the way into the product; fp32 keeps 23. The products tried are
# the model's own: which kernel the library takes depends on the sizes.

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
