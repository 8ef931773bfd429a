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
    found = load_model(str(tmp_path))
    assert found.folder == str(tmp_path)
    assert found.shape == load_model("tiny").shape


def test_a_config_file_alone_means_random_weights(tmp_path: Path) -> None:
    file = tmp_path / "my.json"
    file.write_text(json.dumps(GPT2))
    found = load_model(str(file))
    assert found.folder is None
    assert found.config == GPT2


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
