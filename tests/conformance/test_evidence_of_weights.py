"""A lying executor: what it makes up of weights, products and fidelity fails the suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from material import inference, spec_of
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts, FidelityRow
from twinlens.record.executor.record import ExecutorRecord
from twinlens.spec.model.reference import load_model
from twinlens.testing.evidence import assert_fidelity, assert_products, assert_weights
from twinlens.theory.flop import parameters

SPEC = spec_of(inference("fake", fidelity_prompts=2))
SHAPE = load_model("tiny").shape
TOTAL = parameters(SHAPE).total


def holding(size: float) -> Facts:
    return Facts(ExecutorRecord({}), memory={"weights_bytes": Estimate(size, "B", "said", "measured")})


def compared(*rows: FidelityRow) -> Facts:
    return Facts(ExecutorRecord({}), fidelity=rows)


def test_one_byte_of_weights_is_no_model() -> None:
    assert_weights(holding(4.0 * TOTAL), SPEC)
    assert_weights(Facts(ExecutorRecord({})), SPEC)  # what says nothing of its weights claims nothing
    for size in (1.0, 0.4 * 4 * TOTAL, 4.0 * 4 * TOTAL):
        with pytest.raises(AssertionError, match="parameters of 4 bytes"):
            assert_weights(holding(size), SPEC)


def test_an_export_without_products_or_smaller_than_they_are_is_refused(tmp_path: Path) -> None:
    layers = [(512, 128, "fp32")] * (TOTAL // (512 * 128))
    export = tmp_path / "model.bin"
    export.write_bytes(b"\0" * 4 * TOTAL)
    assert_products(layers, SHAPE, export)
    assert_products(layers, SHAPE, tmp_path)
    with pytest.raises(AssertionError, match="gives no product"):
        assert_products([], SHAPE, export)
    with pytest.raises(AssertionError, match="weights in products, and the layers have"):
        assert_products(layers[:1], SHAPE, export)
    export.write_bytes(b"\0")
    with pytest.raises(AssertionError, match="and an export of 1"):
        assert_products(layers, SHAPE, export)


def test_fidelity_of_no_prompt_of_few_tokens_or_of_another_model_is_refused() -> None:
    same, other = FidelityRow(16, 16, 0.0, 1.0, 1.0), FidelityRow(16, 9, 3.0, 1.0, 1.0)
    assert_fidelity(compared(same, same), SPEC)
    with pytest.raises(AssertionError, match="one row of fidelity for each prompt"):
        assert_fidelity(compared(), SPEC)
    with pytest.raises(AssertionError, match="16 positions"):
        assert_fidelity(compared(same, FidelityRow(1, 1, 0.0, 1.0, 1.0)), SPEC)
    with pytest.raises(AssertionError, match="at fp32 it agrees with fp32 on"):
        assert_fidelity(compared(same, other), SPEC)
