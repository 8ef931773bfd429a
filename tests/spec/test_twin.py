"""A shrunken twin: fewer layers, every kind of them, all else as in the model."""

from __future__ import annotations

import pytest

from twinlens.spec.model.any_model import any_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.model.twin import shrunken, weights_of_products
from twinlens.theory.parameter import parameters


@pytest.mark.parametrize(
    ("name", "multiple", "layers"),
    [
        ("llama-3.1-8b", 1, 2),
        ("llama-3.1-8b", 8, 8),
        ("gpt-oss-20b", 1, 2),  # windowed and whole attention take turns
        ("deepseek-v3", 1, 4),  # experts after three dense layers
        ("mixtral-8x7b", 1, 2),
    ],
)
def test_a_twin_has_each_kind_of_layer_once_at_least(name: str, multiple: int, layers: int) -> None:
    model = any_model(name)
    twin = shrunken(model, multiple)
    assert twin is not None
    few, many = twin.shape, model.shape
    assert isinstance(few, DecoderShape)
    assert isinstance(many, DecoderShape)
    assert (few.layers, few.hidden, few.vocab, few.heads) == (layers, many.hidden, many.vocab, many.heads)
    assert (few.experts is None) == (many.experts is None)
    assert not few.experts or few.expert_layers >= 1
    assert (few.full_attention_layers > 0) == (many.full_attention_layers > 0)


def test_a_model_of_as_few_layers_is_its_own_twin() -> None:
    assert shrunken(any_model("tiny")) is None
    assert shrunken(any_model("llama-3.1-8b"), 32) is None


@pytest.mark.parametrize("name", ["tiny", "demo-134m", "llama-3.2-1b", "llama-3.1-8b", "mixtral-8x7b", "gpt-oss-20b"])
def test_what_decides_is_near_the_count_of_theory(name: str) -> None:
    shape = any_model(name).shape
    assert isinstance(shape, DecoderShape)
    assert weights_of_products(shape) == pytest.approx(parameters(shape).total, rel=0.05)
