"""The activation count against what autograd really saves."""

from __future__ import annotations

from typing import Any

import pytest

from twinlens.spec.model.reference import load_model, shape_from_config
from twinlens.theory.activation import Attention, activation_bytes

TINY = load_model("tiny").config
QWEN = {
    **TINY,
    "model_type": "qwen3",
    "head_dim": 32,
}
CASES: list[tuple[dict[str, Any], str, Attention]] = [
    (TINY, "float32", "fused"),
    (TINY, "bfloat16", "fused"),
    (TINY, "bfloat16", "materialised"),
    (TINY, "float32", "materialised"),
    (load_model("small").config, "bfloat16", "fused"),
    (QWEN, "bfloat16", "fused"),
    (load_model("vit-tiny").config, "float32", "fused"),
    (load_model("resnet-tiny").config, "float32", "fused"),
    ({**load_model("resnet-50").config, "image_size": 64}, "float32", "fused"),
]


def saved_bytes(config: dict[str, Any], dtype: str, attention: Attention, seq_len: int) -> int:
    """Bytes of the distinct storages autograd saves in a forward pass of two samples, parameters aside."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    vision = config["model_type"] in ("vit", "resnet")
    kind = transformers.AutoModelForImageClassification if vision else transformers.AutoModelForCausalLM
    plain = {key: value for key, value in config.items() if key != "dtype"}
    extra = {} if config["model_type"] == "resnet" else {"attn_implementation": ATTENTION[attention]}
    model = kind.from_config(transformers.AutoConfig.for_model(**plain), **extra).to(getattr(torch, dtype)).train()
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, Any] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = tensor  # held, so that no address comes twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        if vision:
            side = config["image_size"]
            model(pixel_values=torch.rand(2, 3, side, side))
        else:
            model(input_ids=torch.randint(0, config["vocab_size"], (2, seq_len)), use_cache=False)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


ATTENTION = {"fused": "sdpa", "materialised": "eager"}


@pytest.mark.torch
@pytest.mark.parametrize(("config", "dtype", "attention"), CASES)
def test_activations_are_what_autograd_saves(config: dict[str, Any], dtype: str, attention: Attention) -> None:
    size = 4 if dtype == "float32" else 2
    ours = activation_bytes(shape_from_config(config), 2, 192, attention=attention, bytes_per_element=size)
    assert ours == pytest.approx(saved_bytes(config, dtype, attention, 192), rel=0.05)
