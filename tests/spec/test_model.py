"""Models by name, folder and file; shapes from configs; parameters against the real modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from twinlens.errors import BadInput
from twinlens.spec.model.reference import DecoderShape, ModelRef, list_models, load_model, shape_from_config
from twinlens.theory.parameter import parameters

LLAMA = load_model("tiny").config
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 32, "vocab_size": 99}
QWEN = {
    **LLAMA,
    "model_type": "qwen2",
    "use_sliding_window": True,
    "sliding_window": 8,
    "max_window_layers": 1,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "mistral": {**LLAMA, "model_type": "mistral", "sliding_window": 16},
    "qwen2-window": QWEN,
    "llama-biases": {**LLAMA, "attention_bias": True, "mlp_bias": True},
    "llama-tied": {**LLAMA, "tie_word_embeddings": True},
    "llama-wide-heads": {**LLAMA, "head_dim": 48},
    "qwen3-bias": {**LLAMA, "model_type": "qwen3", "head_dim": 32, "attention_bias": True},
    "deepseek-full-rank-query": {
        **load_model("deepseek-v3").config,
        "q_lora_rank": None,
        "num_hidden_layers": 5,
    },
    "deepseek-bias": {**load_model("deepseek-v3").config, "attention_bias": True, "num_hidden_layers": 4},
    "vit-no-bias": {**load_model("vit-tiny").config, "qkv_bias": False},
    "resnet-early": {
        **load_model("resnet-50").config,
        "downsample_in_first_stage": True,
        "downsample_in_bottleneck": True,
    },
}
SMALL = {
    "vocab_size": 99, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 8, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 24, "max_position_embeddings": 512,
}  # fmt: skip
LINEAR = {
    "linear_num_value_heads": 6, "linear_value_head_dim": 16, "linear_num_key_heads": 3, "linear_key_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
ROUTED = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
LATENT = {
    "kv_lora_rank": 32, "q_lora_rank": None, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 40, "n_shared_experts": 2,
    "first_k_dense_replace": 1, "num_key_value_heads": 4, "moe_layer_freq": 1,
}  # fmt: skip
MAMBA = {"mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
HEADLESS = {name: value for name, value in SMALL.items() if name != "head_dim"}
SHARED = {"shared_expert_intermediate_size": 56, "mlp_only_layers": [3], "decoder_sparse_step": 1}
VARIANTS |= {
    "gemma": {**SMALL, "model_type": "gemma"},
    "gemma2": {**SMALL, "model_type": "gemma2"},
    "gemma3": {**SMALL, "model_type": "gemma3_text", "sliding_window": 32, "sliding_window_pattern": 3},
    "gpt-oss": {**SMALL, "model_type": "gpt_oss", "num_local_experts": 6, "num_experts_per_tok": 2},
    "granite": {**HEADLESS, "model_type": "granite", "attention_bias": True},
    "phi3": {**HEADLESS, "model_type": "phi3", "pad_token_id": 0},
    "qwen2-moe": {**HEADLESS, **ROUTED, **SHARED, "model_type": "qwen2_moe", "qkv_bias": True},
    "qwen3-moe": {**SMALL, **ROUTED, "model_type": "qwen3_moe", "decoder_sparse_step": 2, "mlp_only_layers": [3]},
    "qwen3-next": {**SMALL, **ROUTED, **LINEAR, **SHARED, "model_type": "qwen3_next", "full_attention_interval": 4},
    "qwen3.5": {**SMALL, **LINEAR, "model_type": "qwen3_5_text"},
    "qwen3.5-moe": {**SMALL, **LINEAR, **ROUTED, "shared_expert_intermediate_size": 56,
                    "model_type": "qwen3_5_moe_text"},
    "jamba": {**HEADLESS, **MAMBA, "model_type": "jamba", "num_experts": 4, "num_experts_per_tok": 2,
              "attn_layer_period": 4, "attn_layer_offset": 2, "expert_layer_period": 2, "expert_layer_offset": 1},
    "jamba-biases": {**HEADLESS, **MAMBA, "model_type": "jamba", "num_experts": 1, "num_experts_per_tok": 1,
                     "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2,
                     "expert_layer_offset": 1, "mamba_proj_bias": True, "mamba_conv_bias": False},
    "bamba": {**HEADLESS, **MAMBA, "model_type": "bamba", "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2,
              "attn_layer_indices": [2, 5], "attention_bias": True},
    "bamba-biases": {**HEADLESS, **MAMBA, "model_type": "bamba", "mamba_n_heads": 8, "mamba_d_head": 16,
                     "mamba_n_groups": 2, "attn_layer_indices": [2], "mamba_proj_bias": True, "mlp_bias": True},
    "llama4": {**SMALL, "model_type": "llama4_text", "intermediate_size_mlp": 128, "num_local_experts": 4,
               "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "attention_chunk_size": 32},
    "mllama": {"model_type": "mllama", "text_config": {
        **HEADLESS, "model_type": "mllama_text_model", "cross_attention_layers": [3, 6], "tie_word_embeddings": False,
        "pad_token_id": 0}},
    "deepseek-v2": {**HEADLESS, **LATENT, "model_type": "deepseek_v2"},
    "deepseek-v2-low-rank": {**HEADLESS, **LATENT, "model_type": "deepseek_v2", "q_lora_rank": 24,
                             "attention_bias": True},
    "glm4-moe": {**SMALL, **LATENT, "model_type": "glm4_moe", "use_qk_norm": True, "attention_bias": True},
}  # fmt: skip
CONFIGS = {name: load_model(name).config for name in list_models()} | VARIANTS


def real_parameters(config: dict[str, Any]) -> int:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    vision = config["model_type"] in ("vit", "resnet")
    kind = transformers.AutoModelForImageClassification if vision else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(transformers.AutoConfig.for_model(**config))
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.torch
@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_of_the_real_module(name: str) -> None:
    assert parameters(shape_from_config(CONFIGS[name])).total == real_parameters(CONFIGS[name])


def test_a_config_that_somebody_changes_is_nobody_elses() -> None:
    """The catalogue is read once in a process."""
    config = load_model("llama-3.1-70b").config
    config["hidden_size"], config["rope_scaling"]["factor"] = -1, -1.0
    again = load_model("llama-3.1-70b").config
    assert (again["hidden_size"], again["rope_scaling"]["factor"]) == (8192, 8.0)


def test_the_catalogue_holds_what_the_documents_name() -> None:
    assert {"tiny", "small", "demo-34m", "demo-134m", "llama-3.1-70b", "resnet-50", "vit-base"} <= set(list_models())


def test_deepseek_v2_lite_is_the_published_one() -> None:
    shape = load_model("deepseek-v2-lite").shape
    assert isinstance(shape, DecoderShape)
    assert shape.mla
    assert shape.experts
    # 31,412,968,448 bytes in the index of its bf16 weights; 2.4 B active without the two tables, as its paper says.
    count = parameters(shape)
    assert count.total == 31_412_968_448 // 2
    assert count.active - count.embedding == pytest.approx(2.4e9, rel=0.03)
    assert (shape.mla.q_lora_rank, shape.expert_layers, shape.experts.shared) == (None, 26, 2)


def test_a_mixture_in_every_second_layer_is_refused_and_not_counted_wrongly() -> None:
    config = {**load_model("deepseek-v2-lite").config, "moe_layer_freq": 2}
    with pytest.raises(BadInput, match="moe_layer_freq") as caught:
        shape_from_config(config)
    assert caught.value.code == "TL202"


@pytest.mark.parametrize("name", list_models())
def test_a_catalogue_model_is_cited_and_survives_a_round_trip(name: str) -> None:
    model = load_model(name)
    assert model.source
    assert "_source" not in model.config
    assert model.folder is None
    assert ModelRef.model_validate_json(model.model_dump_json()) == model


def test_a_folder_with_weights_is_kept_and_one_without_is_not(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert load_model(str(tmp_path)).folder is None
    (tmp_path / "model.safetensors").write_bytes(b"")
    model = load_model(str(tmp_path))
    assert model.folder == str(tmp_path)
    assert model.shape == load_model("tiny").shape


def test_a_config_file_alone_means_random_weights(tmp_path: Path) -> None:
    file = tmp_path / "my.json"
    file.write_text(json.dumps(GPT2))
    model = load_model(str(file))
    assert model.folder is None
    assert model.config == GPT2


def test_remote_code_of_a_known_type_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "auto_map": {"AutoModel": "evil.Model"}}))
    assert "auto_map" not in load_model(str(tmp_path)).config


def test_remote_code_of_an_unknown_type_is_refused(tmp_path: Path) -> None:
    config = {**LLAMA, "model_type": "llamas", "auto_map": {"AutoModel": "evil.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadInput, match=r"never run.*did you mean 'llama'") as caught:
        load_model(str(tmp_path))
    assert caught.value.code == "TL202"


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(BadInput, match=r"llama-3\.1-8b") as caught:
        load_model("lama-3.1-8b")
    assert caught.value.code == "TL201"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "no JSON object"),
        ("{}", "unknown model_type None"),
        ('{"model_type": "llama"}', "num_attention_heads"),
        (json.dumps({**LLAMA, "num_hidden_layers": 0}), "describes no model"),
        (json.dumps({**LLAMA, "hidden_size": "128"}), "describes no model"),
        (json.dumps({**LLAMA, "num_key_value_heads": 3}), "cannot share 3 key-value heads"),
        ("[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_a_bad_config_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BadInput, match=says) as caught:
        load_model(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_an_empty_folder_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no config\.json"):
        load_model(str(tmp_path))


def test_a_window_that_is_switched_off_is_no_window() -> None:
    off = shape_from_config({**QWEN, "use_sliding_window": False})
    on = shape_from_config(QWEN)
    assert isinstance(off, DecoderShape)
    assert isinstance(on, DecoderShape)
    assert off.sliding_window is None
    assert (on.sliding_window, on.full_attention_layers) == (8, 1)


def test_a_shape_is_frozen_and_closed() -> None:
    shape = load_model("tiny").shape
    with pytest.raises(ValidationError, match="frozen"):
        shape.layers = 3  # type: ignore[misc, union-attr]
    with pytest.raises(ValidationError, match="Extra inputs"):
        DecoderShape(**{**shape.model_dump(), "nlayers": 2})
