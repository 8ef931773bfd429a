"""FLOP of attention as GPUs run it: torch's own operators, counted on a device that has no memory; sums by hand."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

from material import quiet, spec_of, training  # noqa: E402
from twinlens.executors.torch.evidence.flop import _formulas, counted_flop  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.measurement.facts.predicted_work import coverage_of, theory_of, within_datasheet  # noqa: E402
from twinlens.record.estimate import Estimate  # noqa: E402

pytestmark = pytest.mark.torch
B, H, S, D = 2, 4, 64, 16
QKV = [(B, H, S, D)] * 3
FULL = 2 * B * H * S * S * D  # one product over the whole square
TAILS: dict[str, tuple[Any, Any]] = {
    # What follows query, key and value: forward, and backward after the gradient. `True` before is_causal is no mask.
    "flash_attention": ((0.0, None, False), ((), (), (), (), S, S, 0.0, None, (), ())),
    "efficient_attention": ((None, True, 0.0, None), (None, (), (), (), (), 0.0, [True] * 4, None)),
    "cudnn_attention": ((None, True, 0.0, None, False), ((), (), (), (), None, (), (), S, S, 0.0, None)),
    "flash_attention_for_cpu": ((0.0, None), ((), (), 0.0, None)),
}


@pytest.mark.parametrize("kernel", TAILS)
@pytest.mark.parametrize(("causal", "share"), [(False, 1.0), (True, 0.5)])
def test_causal_attention_is_halved_in_every_kernel_and_its_backward_pass(
    kernel: str, causal: bool, share: float
) -> None:
    for suffix, products, gradient, tail in (
        ("", 2, [], TAILS[kernel][0]),
        ("_backward", 5, [QKV[0]], TAILS[kernel][1]),
    ):
        operator = getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}{suffix}")
        names = [argument.name for argument in operator.default._schema.arguments]
        arguments = [*gradient, *QKV, *tail]
        arguments[names.index("is_causal")] = causal
        assert _formulas()[operator](*arguments, out_shape=None) == products * FULL * share, suffix


def test_a_value_narrower_than_its_key_is_counted_narrower() -> None:
    formula = _formulas()[torch.ops.aten._scaled_dot_product_flash_attention]
    assert formula((B, H, S, 24), (B, H, S, 24), (B, H, S, 16), 0.0, False, out_shape=None) == 2 * B * H * S * S * 40


@pytest.mark.parametrize("causal", [True, False])
def test_a_real_operator_is_counted_as_its_formula_says(causal: bool) -> None:
    query, key, value = (torch.randn(B, H, S, D, requires_grad=True) for _ in range(3))

    def both_ways() -> None:
        torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal).sum().backward()

    assert counted_flop(both_ways) == 7 * FULL * (0.5 if causal else 1.0)


def test_the_products_of_a_group_and_of_its_backward_pass() -> None:
    formula = _formulas()[torch.ops.aten._grouped_mm]
    rows, inner, experts, columns = 10, 8, 4, 6
    assert formula((rows, inner), (experts, inner, columns)) == 2 * rows * inner * columns
    assert formula((inner, rows), (rows, columns)) == 2 * rows * inner * columns, "of the weights: one for each expert"
    assert formula((experts, columns, inner), (inner, rows)) == 2 * rows * inner * columns


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_coverage_repeats_to_the_last_digit(precision: str) -> None:
    seen = set()
    for _ in range(2):
        trainer = TorchTrainer()
        facts = trainer.open(spec_of(training(point={"precision": precision})), quiet)
        seen.add(coverage_of(theory_of(trainer.spec) | facts.work)["flop_coverage"].value)
    assert seen == {1.0}


def test_a_rate_that_no_board_reaches_is_no_ceiling() -> None:
    def rate(value: float) -> Estimate:
        return Estimate(value, "bytes/s", "copy of 1024 MiB", "measured", n=9)

    sheet = {"datasheet_bytes_per_s": rate(3.35e12)}
    ceilings = within_datasheet({"copy_bytes_per_s": rate(2e14), "read_bytes_per_s": rate(3.2e12)}, sheet)
    assert ceilings["copy_bytes_per_s"].value is None
    assert "above the" in (ceilings["copy_bytes_per_s"].reason or "")
    assert ceilings["read_bytes_per_s"].value == 3.2e12
    assert within_datasheet({"copy_bytes_per_s": rate(2e14)}, {})["copy_bytes_per_s"].value == 2e14
