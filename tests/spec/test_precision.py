"""What a precision's name means, per tensor class and lens."""

from __future__ import annotations

import pytest

from twinlens.errors import BadInput
from twinlens.spec.precision import BITS, PRECISIONS, TENSOR_CLASSES, precision


@pytest.mark.parametrize("name", PRECISIONS)
def test_a_regime_says_a_known_format_for_every_tensor_class_of_its_lenses(name: str) -> None:
    regime = precision(name)
    assert regime.name == name
    assert regime.lenses
    assert regime.compute in BITS
    for lens in ("training", "inference"):
        if lens in regime.lenses:
            classes = regime.classes(lens)
            assert tuple(classes) == TENSOR_CLASSES[lens]
            assert set(classes.values()) <= set(BITS)
        else:
            with pytest.raises(BadInput, match=f"does not exist for {lens}; known: fp32"):
                regime.classes(lens)


@pytest.mark.parametrize("name", PRECISIONS)
def test_quantised_regimes_have_scales_and_casts_have_none(name: str) -> None:
    regime = precision(name)
    assert regime.quantised == (regime.scale_bits > 0) == (regime.method != "cast")


@pytest.mark.parametrize(
    ("name", "row", "bits"),
    [
        ("fp32", 0, 32),
        ("bf16", 128, 16),
        ("int8-weight", 4096, 8 + 16 / 4096),  # one bf16 scale for each output channel
        ("int8-weight", 0, 8),
        ("int4-weight", 4096, 4 + 32 / 32),  # a bf16 scale and a bf16 zero for each 32
        ("int4-weight", 0, 5),
    ],
)
def test_bits_of_a_weight_worked_by_hand(name: str, row: int, bits: float) -> None:
    assert precision(name).weight_bits("inference", row) == bits


def test_mixed_precision_keeps_an_fp32_master() -> None:
    for name in ("fp32", "tf32", "bf16", "fp16", "fp8"):
        classes = precision(name).classes("training")
        assert {classes[c] for c in ("weights", "master", "gradients", "optimizer")} == {"fp32"}, name


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean 'int8-weight'") as caught:
        precision("int8-wieght")
    assert caught.value.code == "TL203"
