"""tf32 by arithmetic: rounding that a GPU would do is done here by hand, and it is noticed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from twinlens.executors.torch.evidence.check import Product, fp32_computed_in, products_seen, tf32_by_name  # noqa: E402
from twinlens.executors.torch.evidence.trace import Kernel  # noqa: E402

pytestmark = pytest.mark.torch


def as_tf32(x: torch.Tensor) -> torch.Tensor:
    """Ten bits of mantissa, ties to even: what a tensor core is given."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


@pytest.fixture
def tensor_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of at least 16 rows round their operands, as a GPU's do; fewer take the plain path, as a gemv does."""
    linear, conv = F.linear, F.conv2d

    def rounded(x: torch.Tensor, w: torch.Tensor, *rest: Any) -> torch.Tensor:
        return linear(as_tf32(x), as_tf32(w), *rest) if x.shape[0] >= 16 else linear(x, w, *rest)

    monkeypatch.setattr(F, "linear", rounded)
    monkeypatch.setattr(F, "conv2d", lambda x, w, **rest: conv(as_tf32(x), as_tf32(w), **rest))


CONV = Product(64, 8, 27, ((2, 3, 8, 8), (8, 3, 3, 3), (1, 1), (1, 1)))


def test_rounding_is_seen_where_it_happens_and_weighs_by_flop(tensor_cores: None) -> None:
    assert fp32_computed_in({Product(32, 64, 64): 1}, "cpu") == {"tf32": 1.0}
    assert fp32_computed_in({Product(1, 64, 64): 1}, "cpu") == {"fp32": 1.0}
    assert fp32_computed_in({CONV: 1}, "cpu") == {"tf32": 1.0}
    shares = fp32_computed_in({Product(30, 64, 64): 2, Product(15, 64, 64): 4}, "cpu")
    assert shares == {"tf32": 0.5, "fp32": 0.5}


def test_a_processors_products_are_fp32() -> None:
    assert fp32_computed_in({Product(32, 64, 64): 1, CONV: 1}, "cpu") == {"fp32": 1.0}
    assert fp32_computed_in({}, "cpu") == {}


def test_the_products_tried_are_those_the_model_ran() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Flatten(), nn.Linear(8 * 64, 10))
    with products_seen(model) as products:
        model(torch.zeros(2, 3, 8, 8))
    assert products == Counter(
        {Product(128, 8, 27, ((2, 3, 8, 8), (8, 3, 3, 3), (1, 1), (1, 1))): 1, Product(2, 10, 512): 1}
    )
    assert sum(p.flop * n for p, n in products.items()) == 2 * (2 * 64 * 8 * 27 + 2 * 10 * 512)
    model(torch.zeros(2, 3, 8, 8))
    assert sum(products.values()) == 2, "the hooks are gone"


def test_names_are_a_second_witness_and_only_of_products() -> None:
    kernels = (
        Kernel("cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4", 9, 3.0, on_device=True),
        Kernel("ampere_sgemm_128x64_tn", 1, 1.0, on_device=True),
        Kernel("void at::native::elementwise_kernel<128, 2>", 1, 50.0, on_device=True),
        Kernel("aten::mm", 1, 4.0, ("fp32", "fp32")),
    )
    assert tf32_by_name(kernels) == 0.75
    assert tf32_by_name(kernels[2:]) is None
