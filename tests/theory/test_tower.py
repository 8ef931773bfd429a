"""Image towers: parameters exactly and FLOP to 1 % against Hugging Face's own, activations to 5 %, and by hand."""

from __future__ import annotations

from typing import Any

import pytest

from twinlens.errors import BadInput
from twinlens.spec.model.reader.tower import tower_from_config
from twinlens.theory.tower import image_tokens, tower_activation_bytes, tower_flop, tower_parameters

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
SIDE = {"llava": 56, "gemma3": 56, "qwen2_vl": 112, "qwen2_5_vl": 112}
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


def forwarded(kind: str, encoder: Any, projector: Any) -> None:
    """One image through both."""
    import torch

    side, cells = SIDE[kind], SIDE[kind] // 14
    if kind.startswith("qwen"):
        encoder(torch.rand(cells * cells, 3 * 2 * 14 * 14), grid_thw=torch.tensor([[1, cells, cells]]))
        return
    rows = encoder(pixel_values=torch.rand(1, 3, side, side)).last_hidden_state
    projector(rows[:, 1:] if kind == "llava" else rows)


@pytest.mark.torch
@pytest.mark.parametrize("kind", CONFIGS)
def test_parameters_are_those_of_the_modules(kind: str) -> None:
    held = sum(p.numel() for part in built(kind) if part is not None for p in part.parameters())
    assert tower_parameters(tower(kind)) == held


@pytest.mark.torch
@pytest.mark.parametrize("kind", CONFIGS)
def test_flop_are_those_that_torch_counts(kind: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    encoder, projector = built(kind, "eager")  # torch counts no fused attention on a CPU
    with FlopCounterMode(display=False) as counter:
        forwarded(kind, encoder, projector)
    assert tower_flop(tower(kind), SIDE[kind]) == pytest.approx(counter.get_total_flops(), rel=0.01)


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["llava", "gemma3"])
def test_activations_are_what_autograd_keeps_for_the_layers(kind: str) -> None:
    import torch

    encoder, _ = built(kind)
    own = {tensor.untyped_storage().data_ptr() for tensor in (*encoder.parameters(), *encoder.buffers())}
    kept: dict[int, Any] = {}

    def keep(tensor: Any) -> Any:
        if (place := tensor.untyped_storage().data_ptr()) not in own:
            kept[place] = tensor
        return tensor

    def layers_alone() -> None:
        rows = torch.rand(4, (SIDE[kind] // 14) ** 2 + (kind == "llava"), 64, requires_grad=True)
        body = getattr(encoder, "vision_model", encoder).encoder
        body(inputs_embeds=rows, attention_mask=None)

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layers_alone()
    held = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    assert tower_activation_bytes(tower(kind), 4, SIDE[kind], 4.0) == pytest.approx(held, rel=0.05)


def test_clip_large_by_hand() -> None:
    large = tower_from_config(LARGE)
    assert image_tokens(large, 336) == 576
    projector = 1024 * 4096 + 4096 + 4096**2 + 4096
    assert tower_parameters(large) == 303_507_456 + projector  # CLIP ViT-L/14@336's vision model
    linear = 576 * 3 * 14**2 * 1024 + 577 * 24 * 12 * 1024**2 + 576 * (1024 * 4096 + 4096**2)
    assert tower_flop(large, 336) == 2 * linear + 4 * 24 * 577**2 * 1024
    assert tower_activation_bytes(large, 1, 336) == 577 * 24 * 2 * (4 * 1024 + 4 * 1024 + 3 * 4096)


def test_gemma_pools_and_qwen_merges() -> None:
    assert image_tokens(tower("gemma3"), 56) == 4
    assert image_tokens(tower("qwen2_vl"), 112) == 16
    windowed, full = tower("qwen2_5_vl"), tower("qwen2_5_vl").model_copy(update={"window_patches": None})
    assert tower_flop(full, 112) - tower_flop(windowed, 112) == 4 * 64 * 64 * 2 * (64 - 16)


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


def test_an_image_that_does_not_fit_is_refused() -> None:
    with pytest.raises(BadInput, match="takes images of 56 pixels"):
        tower_flop(tower("llava"), 224)
    with pytest.raises(BadInput, match="squares of 28"):
        image_tokens(tower("qwen2_vl"), 100)
