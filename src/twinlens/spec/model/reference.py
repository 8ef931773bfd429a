"""A model by name or by folder: its config, its shape where its weights are. No weight is read here."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.spec.frozen import Spec
from twinlens.spec.model.config import shape_from_config
from twinlens.spec.model.quantised import released_format
from twinlens.spec.model.shape import (
    DecoderShape,
    Experts,
    LatentAttention,
    ModelShape,
    ResnetShape,
    VisionShape,
    VitShape,
)
from twinlens.system.document import json_of, read_json

__all__ = [
    "DecoderShape",
    "Experts",
    "LatentAttention",
    "ModelRef",
    "ModelShape",
    "ResnetShape",
    "VisionShape",
    "VitShape",
    "list_models",
    "load_model",
    "shape_from_config",
]

_MOST_CONFIG_BYTES = 4 * 2**20


class ModelRef(Spec):
    """One model. `config` is the Hugging Face config and the source of truth; `shape` is read from it.

    A catalogue file keeps the published `quantization_config` under `_quantization_config`: weights that are made from
    the config are in 16 bits. `folder` holds local weights, or is None for random weights from the config. `source` is
    its origin.
    """

    name: str
    config: dict[str, Any]
    shape: ModelShape
    folder: str | None = None
    source: str
    released: str | None = None
    """The format of the weights that its maker published, by the config; None: 16 bits."""


@cache
def list_models() -> tuple[str, ...]:
    """Names in the catalogue, sorted."""
    entries = _catalogue().iterdir()
    return tuple(sorted(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json")))


def load_model(name_or_path: str) -> ModelRef:
    """A model of the catalogue, a Hugging Face folder or a config.json. A catalogue name wins over a path.

    Raises BadInput: TL201 when there is no such model, TL202 when its config cannot be used.
    """
    if name_or_path in list_models():
        kept = _from_catalogue(name_or_path)
        return kept.model_copy(update={"config": deepcopy(kept.config)})
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        weights = has_weights(path)
        if not weights:
            refuse_pickles(path, name_or_path)
        return _from_file(path / "config.json", name_or_path, weights=weights)
    if path.is_file():
        return _from_file(path, name_or_path, weights=False)
    raise BadInput(
        f"no model {name_or_path!r} in the catalogue or on disk; {nearest(name_or_path, list_models())}",
        code="TL201",
    )


def _catalogue() -> Path:
    return Path(__file__).parents[1] / "catalog" / "models"


@cache
def _from_catalogue(name: str) -> ModelRef:
    config = json_of((_catalogue() / f"{name}.json").read_text(encoding="utf-8"))
    source = config.pop("_source")
    published = {"quantization_config": config.pop("_quantization_config", None)}
    return ModelRef(name=name, config=config, shape=shape_from_config(config), source=source,
                    released=released_format(published))  # fmt: skip


def has_weights(folder: Path) -> bool:
    """Whether safetensors lie there."""
    return any(folder.glob("*.safetensors"))


def refuse_pickles(folder: Path, model: str) -> None:
    """Raises BadInput (TL201): random weights in their place would be a lie, and unpickling runs whatever they hold."""
    pickles = sorted(file.name for kind in ("*.bin", "*.pt", "*.pth") for file in folder.glob(kind))
    if pickles:
        raise BadInput(
            f"the weights of {model!r} are pickled ({pickles[0]}), and loading a pickle runs the code in it; "
            "convert them to safetensors",
            code="TL201",
        )


def _from_file(path: Path, model: str, *, weights: bool) -> ModelRef:
    config = read_config(path, model)
    # Its code is never run; a known type needs none, and an unknown one is refused by its name.
    shape = shape_from_config(config)
    left = ("auto_map", "_source") if weights else ("auto_map", "_source", "quantization_config")  # made in 16 bits
    kept = {key: value for key, value in config.items() if key not in left}
    source = str(config.get("_source", f"local file {path.name}"))
    folder = str(path.parent) if weights else None
    return ModelRef(
        name=model, config=kept, shape=shape, folder=folder, source=source, released=released_format(config)
    )


def read_config(path: Path, model: str) -> dict[str, Any]:
    """A config.json of a size that a config has. Raises BadInput (TL201, TL202)."""
    try:
        if path.stat().st_size > _MOST_CONFIG_BYTES:
            raise BadInput(f"{path.name} of {model!r} is too large to be a model config", code="TL202")
        config = read_json(path)
    except FileNotFoundError:
        raise BadInput(f"the folder {model!r} has no config.json; name a Hugging Face folder", code="TL201") from None
    except (OSError, ValueError) as wrong:
        raise BadInput(f"{path.name} of {model!r} cannot be read as JSON ({wrong})", code="TL202") from None
    if not isinstance(config, dict):
        raise BadInput(f"{path.name} of {model!r} is no JSON object", code="TL202")
    return config
