"""FLOP against PyTorch's own counter, and the laws they keep."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.spec.model.reference import DecoderShape, list_models, load_model, shape_from_config
from twinlens.spec.model.shape import ResnetShape, VitShape
from twinlens.theory.attention import flop_per_pair
from twinlens.theory.flop import (
    CONVENTIONS,
    Convention,
    attention_pairs,
    decode_flop,
    forward_flop,
    forward_flop_per_image,
    parameters,
    prefill_flop,
    training_flop_per_image,
    training_flop_per_token,
)


def decoder(name: str) -> DecoderShape:
    shape = load_model(name).shape
    assert isinstance(shape, DecoderShape)
    return shape


def vision(name: str) -> VitShape | ResnetShape:
    shape = load_model(name).shape
    assert not isinstance(shape, DecoderShape)
    return shape


TINY = decoder("tiny")
DECODERS = [name for name in list_models() if load_model(name).shape.family == "decoder"]
WINDOWED = TINY.model_copy(update={"sliding_window": 16, "full_attention_layers": 1, "layers": 3})
DENSE_DEEPSEEK = {**load_model("deepseek-v3").config, "num_hidden_layers": 2, "first_k_dense_replace": 2}
DENSE_LITE = {**load_model("deepseek-v2-lite").config, "num_hidden_layers": 2, "first_k_dense_replace": 2}
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 64, "vocab_size": 99}
SIZES = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
COUNTED = {name: load_model(name).config for name in ("tiny", "demo-34m", "qwen3-8b", "llama-3.2-1b")} | {
    "deepseek": DENSE_DEEPSEEK,
    "deepseek-lite": DENSE_LITE,
    "gpt2": GPT2,
    "gemma2": {**SIZES, "model_type": "gemma2", "head_dim": 24},
    "gemma3": {**SIZES, "model_type": "gemma3_text", "head_dim": 24, "sliding_window": 64},
    "granite": {**SIZES, "model_type": "granite", "attention_bias": True},
    "phi3": {**SIZES, "model_type": "phi3"},
    "gemma4": {
        **SIZES,
        "model_type": "gemma4_text",
        "head_dim": 24,
        "sliding_window": 64,
        "global_head_dim": 40,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "num_hidden_layers": 6,
        "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 96,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 1,
    },
    "nemotron-h": {
        **{name: size for name, size in SIZES.items() if name != "num_hidden_layers"},
        "head_dim": 24,
        "model_type": "nemotron_h",
        "layers_block_type": ["full_attention", "mlp", "mlp"],
        "mamba_num_heads": 4,
        "mamba_head_dim": 8,
        "n_groups": 2,
        "ssm_state_size": 8,
        "conv_kernel": 4,
    },
}


def counted(config: dict[str, Any], image_size: int | None = None, *, train: bool = False) -> int:
    """What torch's counter sees on the meta device with attention written out, which has no causal saving."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from torch.utils.flop_counter import FlopCounterMode

    kind = transformers.AutoModelForCausalLM if image_size is None else transformers.AutoModelForImageClassification
    config = {key: value for key, value in config.items() if key != "dtype"}
    with torch.device("meta"):
        model = kind.from_config(transformers.AutoConfig.for_model(**config), attn_implementation="eager").train(train)
        if image_size is None:
            # A whole mask is given, since making one reads values, which the meta device has not.
            mask = torch.zeros(2, 1, 48, 48)
            inputs = {
                "input_ids": torch.ones(2, 48, dtype=torch.long),
                "attention_mask": mask,
                "use_cache": False,
            }
        else:
            inputs = {"pixel_values": torch.ones(2, 3, image_size, image_size)}
        with FlopCounterMode(display=False) as counter:
            logits = model(**inputs).logits
            if train:
                logits.sum().backward()
    return int(counter.get_total_flops())


@pytest.mark.torch
@pytest.mark.parametrize("name", COUNTED)
def test_a_forward_pass_is_what_torch_counts(name: str) -> None:
    shape = shape_from_config(COUNTED[name])
    assert isinstance(shape, DecoderShape)
    assert 2 * forward_flop(shape, 48, 0, "palm-full") == counted(COUNTED[name])


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "size"),
    [("resnet-50", 224), ("resnet-50", 97), ("resnet-tiny", 32), ("vit-base", 224), ("vit-tiny", 32)],
)
def test_an_image_is_what_torch_counts(name: str, size: int) -> None:
    assert 2 * forward_flop_per_image(vision(name), size) == counted(load_model(name).config, size)


@pytest.mark.torch
def test_a_training_step_is_what_torch_counts() -> None:
    assert 2 * 48 * training_flop_per_token(TINY, 48, "palm-full") == counted(load_model("tiny").config, train=True)


def test_resnet_50_is_the_published_four_gigamacs() -> None:
    shape = vision("resnet-50")
    assert forward_flop_per_image(shape) == pytest.approx(2 * 4.09e9, rel=0.001)
    first = 2 * 112 * 112 * 64 * 3 * 7 * 7  # nobody needs the gradient of a pixel
    assert training_flop_per_image(shape) == 3 * forward_flop_per_image(shape) - first


def test_causal_attention_adds_a_quarter_to_a_long_prompt() -> None:
    # 70B, 32K: 4·L·h·S/2 = 43 GFLOP per token over 2·N = 141, 23 % of the sum.
    shape = decoder("llama-3.1-70b")
    per_token = prefill_flop(shape, 32768) / 32768
    assert (per_token - 2 * parameters(shape).total) / per_token == pytest.approx(0.23, abs=0.02)


def test_only_chosen_experts_work() -> None:
    count = parameters(decoder("mixtral-8x7b"))
    assert count.active == pytest.approx(12.88e9, rel=0.001)
    assert parameters(decoder("deepseek-v3")).active == pytest.approx(37.55e9, rel=0.001)


def test_an_unknown_convention_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="palm-full"):
        training_flop_per_token(TINY, 8, "palm")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [(0, 0), (-1, 0), (1, -1)])
def test_impossible_lengths_are_refused(wrong: tuple[int, int]) -> None:
    with pytest.raises(BadInput, match=r"at least 1|negative"):
        forward_flop(TINY, *wrong)


def test_an_image_must_divide_into_patches() -> None:
    with pytest.raises(BadInput, match="patches of 8"):
        forward_flop_per_image(vision("vit-tiny"), 33)


lengths = st.integers(1, 300)
shapes = st.sampled_from([TINY, WINDOWED, decoder("llama-3.1-8b"), decoder("mixtral-8x7b")])


@given(shapes, lengths, lengths, st.integers(0, 300))
def test_causal_work_does_not_depend_on_how_a_prompt_is_cut(
    shape: DecoderShape, first: int, second: int, context: int
) -> None:
    whole = forward_flop(shape, first + second, context)
    parts = forward_flop(shape, first, context) + forward_flop(shape, second, context + first)
    assert whole == pytest.approx(parts, rel=1e-12)


@given(shapes, lengths)
def test_decoding_grows_with_context_until_the_window_is_full(shape: DecoderShape, context: int) -> None:
    assert decode_flop(shape, context + 1) >= decode_flop(shape, context)


@given(lengths, st.integers(0, 300))
def test_window_pairs_are_those_counted_one_by_one(new: int, context: int) -> None:
    by_hand = sum((context + i) + 2 * min(context + i, 16) for i in range(1, new + 1))
    assert attention_pairs(WINDOWED, new, context) == by_hand


@given(shapes, st.integers(1, 5000))
def test_conventions_keep_their_order(shape: DecoderShape, seq_len: int) -> None:
    found = {name: training_flop_per_token(shape, seq_len, name) for name in CONVENTIONS}
    assert found["causal"] <= found["palm-full"] < found["hw-recompute"]
    assert found["hw-recompute"] == pytest.approx(found["palm-full"] * 4 / 3)


@given(st.sampled_from(DECODERS), st.integers(1, 4096))
def test_training_is_three_forward_passes_but_for_half_a_pair(name: str, seq_len: int) -> None:
    # The convention sees S/2 tokens on average where exactly (S + 1)/2 are seen.
    shape = decoder(name)
    exact = 3 * forward_flop(shape, seq_len) / seq_len
    window = min(shape.sliding_window or seq_len, seq_len) / seq_len
    layers = shape.full_layers + shape.windowed_layers * window  # once a window is full, a token more sees no more
    per_pair = layers * flop_per_pair(shape, absorbed=False)
    assert exact - training_flop_per_token(shape, seq_len) == pytest.approx(3 * per_pair / 2, rel=1e-3)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_convention_has_a_forward_pass(convention: Convention) -> None:
    assert forward_flop(TINY, 4, 0, convention) > 0


def test_an_absorbed_latent_reads_the_same_weights_as_an_expanded_one() -> None:
    shape = decoder("deepseek-v3")
    linear = 2 * parameters(shape).matmul
    per_pair = 2 * 128 * (2 * 512 + 64) * 61
    assert decode_flop(shape, 999) == linear + 1000 * per_pair
