"""A shrunken twin of a model: the same architecture and widths with fewer layers, of which each kind is there once."""

from __future__ import annotations

from typing import Any

from twinlens.errors import BadInput
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.model.config import shape_from_config
from twinlens.spec.model.shape import DecoderShape

_COUNTS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")


def shrunken(model: AnyModel, multiple: int = 1) -> AnyModel | None:
    """The twin with the fewest layers, two at least and a multiple of `multiple`, and random weights; None where it
    would have as many as the model, or where its config does not say how many there are."""
    shape = model.shape
    name = next((each for each in _COUNTS if isinstance(model.config.get(each), int)), None)
    if name is None or not isinstance(shape, DecoderShape):
        return None
    least = max(2, _first_of_every_kind(model.config, shape))
    layers = -(-least // multiple) * multiple
    if layers >= shape.layers:
        return None
    lists = {key: value[:layers] for key, value in model.config.items() if _is_by_layer(value, shape.layers)}
    config = model.config | lists | {name: layers}
    try:
        less = shape_from_config(config)
    except BadInput:
        return None
    return model.model_copy(update={"config": config, "shape": less, "folder": None})


def weights_of_products(shape: DecoderShape) -> int:
    """Weights of tables and products, to decide by; norms, biases and latent attention are left out, which theory
    counts."""
    attention = 2 * (shape.heads + shape.kv_heads) * shape.head_dim * shape.hidden
    many = shape.experts.count if shape.experts else 1
    width = (shape.experts.intermediate if shape.experts else None) or shape.intermediate
    fed = (3 if shape.gated_mlp else 2) * shape.hidden * width * many
    return shape.layers * (attention + fed) + (1 if shape.tied_embeddings else 2) * shape.vocab * shape.hidden


def _first_of_every_kind(config: dict[str, Any], shape: DecoderShape) -> int:
    """Layers until each kind was there: windowed and whole attention, and experts after dense ones."""
    kinds: Any = config.get("layer_types")
    by_name = list(kinds) if _is_by_layer(kinds, shape.layers) else []
    dense = shape.layers - shape.expert_layers if shape.experts else 0
    return max([by_name.index(kind) + 1 for kind in set(by_name)] + [dense + 1 if shape.experts else 1])


def _is_by_layer(value: Any, layers: int) -> bool:
    return isinstance(value, list) and len(value) == layers
