"""Adapters of low rank: on which projections of which models they lie."""

from __future__ import annotations

from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.adapter import adapter_parameters


def decoder(name: str) -> DecoderShape:
    shape = load_model(name).shape
    assert isinstance(shape, DecoderShape)
    return shape


def test_adapters_of_latent_attention_are_on_its_low_rank_projections() -> None:
    # DeepSeek-V2-Lite: queries straight (2,048 → 16 · 192), keys and values down to 512 + 64 and up to 16 · (128 + 128)
    shape = decoder("deepseek-v2-lite")
    attention = shape.layers * ((2048 + 3072) + (2048 + 576) + (512 + 4096) + (2048 + 2048))
    mlp = adapter_parameters(shape, 1, ("gate", "up", "down"))
    assert adapter_parameters(shape, 1) == attention + mlp


def test_adapters_of_a_gpt_have_no_gate() -> None:
    shape = decoder("mpt-1b")
    assert adapter_parameters(shape, 8) == adapter_parameters(shape, 8, ("q", "k", "v", "o", "up", "down"))
