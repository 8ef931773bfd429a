"""Image towers: parameters exactly those of Hugging Face's modules, and by hand."""

from __future__ import annotations

from typing import Any

import pytest

from twinlens.errors import BadInput
from twinlens.spec.model.reader.tower import tower_from_config
from twinlens.theory.parameter import tower_parameters

TEXT = {
    "vocab_size": 64, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 12, "max_position_embeddings": 128,
}  # fmt: skip
CLIP = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 56,
        "patch_size": 14}  # fmt: skip
QWEN = {"depth": 3, "num_heads": 4, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}
CONFIGS: dict[str, dict[str, Any]] = {
    "llava": {"vision_config": CLIP | {"model_type": "clip_vision_model"},
              "text_config": TEXT | {"model_type": "llama"}},
    "gemma3": {"vision_config": CLIP | {"model_type": "siglip_vision_model", "vision_use_head": False},
               "text_config": TEXT | {"model_type": "gemma3_text"}, "mm_tokens_per_image": 4},
    "qwen2_vl": {"vision_config": QWEN | {"embed_dim": 64, "hidden_size": 48, "mlp_ratio": 4},
                 "text_config": TEXT | {"model_type": "qwen2_vl_text"}},
    "qwen2_5_vl": {"vision_config": QWEN | {"hidden_size": 64, "out_hidden_size": 48, "intermediate_size": 96,
                                            "window_size": 56, "fullatt_block_indexes": [1]},
                   "text_config": TEXT | {"model_type": "qwen2_5_vl_text"}},
}  # fmt: skip
# By hand, CLIP ViT-L/14 at 336 pixels: 577 rows of 1024, 24 layers of 12·1024² weights.
LARGE = {"model_type": "llava", "vision_config": CLIP | {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
    "image_size": 336,
}, "text_config": {"hidden_size": 4096}}  # fmt: skip


def tower(kind: str) -> Any:
    return tower_from_config({"model_type": kind, **CONFIGS[kind]})


def built(kind: str, attention: str = "sdpa") -> Any:
    """The encoder and the projector of Hugging Face, apart; a projector that is part of the encoder is None."""
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(kind, **CONFIGS[kind])
    make = transformers.AutoModelForImageTextToText.from_config
    model = make(config, attn_implementation=attention).model
    projector = getattr(model, "multi_modal_projector", None)
    return getattr(model, "vision_tower", None) or model.visual, projector


@pytest.mark.torch
@pytest.mark.parametrize("kind", CONFIGS)
def test_parameters_are_those_of_the_modules(kind: str) -> None:
    held = sum(p.numel() for part in built(kind) if part is not None for p in part.parameters())
    assert tower_parameters(tower(kind)) == held


def test_clip_large_by_hand() -> None:
    large = tower_from_config(LARGE)
    projector = 1024 * 4096 + 4096 + 4096**2 + 4096
    assert tower_parameters(large) == 303_507_456 + projector  # CLIP ViT-L/14@336's vision model


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "llama"}, "no image tower"),
        ({"model_type": "llava", "vision_config": {}, "text_config": TEXT}, "has no 'hidden_size'"),
        (
            {"model_type": "llava", "vision_config": CLIP | {"num_hidden_layers": 0}, "text_config": TEXT},
            "greater than 0",
        ),
        ({"model_type": "gemma3", "vision_config": CLIP | {"patch_size": 0}, "text_config": TEXT}, "no tower"),
        ({"model_type": "qwen2_vl", "vision_config": {"depth": "many"}}, "vision_config"),
    ],
)
def test_a_config_that_describes_no_tower_is_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        tower_from_config(config)
