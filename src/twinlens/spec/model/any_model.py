"""A model whose type theory may not know: a server or an engine that knows it runs it all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.spec.frozen import Spec
from twinlens.spec.model.config import knows, shape_from_config, text_part
from twinlens.spec.model.reference import ModelRef, has_weights, list_models, load_model, read_config, refuse_pickles
from twinlens.spec.model.shape import DecoderShape, ModelShape

_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length")


class AnyModel(Spec):
    """A model as a runtime is given it. `shape` None: its type is none that theory knows, `why` in words."""

    name: str
    config: dict[str, Any]
    shape: ModelShape | None
    folder: str | None = None
    source: str
    why: str = ""

    def known(self) -> ModelRef:
        """The same model, of a type that is read here. Raises BadInput (TL202) for any other."""
        shape = shape_from_config(self.config) if self.shape is None else self.shape
        return ModelRef(name=self.name, config=self.config, shape=shape, folder=self.folder, source=self.source)

    @property
    def context_tokens(self) -> int | None:
        """The positions that the model has, where its config says so, its language part's where it has several."""
        places = [self.config, text_part(self.config)]
        limits = [part.get(name) for part in places for name in _POSITIONS]
        return next((value for value in limits if isinstance(value, int) and value > 0), None)


Model = AnyModel | ModelRef


def is_text(model: Model) -> bool:
    """Whether it reads tokens; a type that theory does not know is taken for a language model."""
    return model.shape is None or isinstance(model.shape, DecoderShape)


def vocabulary(model: Model) -> int:
    """Tokens that a language model knows. Raises BadInput (TL202) where neither shape nor config says so."""
    if isinstance(model.shape, DecoderShape):
        return model.shape.vocab
    size = model.config.get("vocab_size")
    if not isinstance(size, int) or size < 1:
        raise BadInput(f"the config of {model.name} has no vocab_size; add it", code="TL202")
    return size


def any_model(name_or_path: str) -> AnyModel:
    """The same as `load_model`, and also a config of a type that theory does not know: others run it.

    Raises what `load_model` raises, but for an unknown type, or an unusual config in a folder that holds weights.
    """
    path = Path(name_or_path).expanduser()
    folder = path if path.is_dir() else None
    if name_or_path not in list_models() and (path.is_file() or (folder and (folder / "config.json").is_file())):
        config = read_config(folder / "config.json" if folder else path, name_or_path)
        weights = folder is not None and has_weights(folder)
        if folder is not None and not weights:
            refuse_pickles(folder, name_or_path)
        why = _why_unread(config)
        if why and (weights or _names_a_type(config)):
            return _unread(name_or_path, config, str(folder) if weights else None, why)
    ref = load_model(name_or_path)
    return AnyModel(name=ref.name, config=ref.config, shape=ref.shape, folder=ref.folder, source=ref.source)


def _unread(name: str, config: dict[str, Any], folder: str | None, why: str) -> AnyModel:
    kept = {key: value for key, value in config.items() if key not in ("auto_map", "_source")}
    return AnyModel(name=name, config=kept, shape=None, folder=folder, source="local file config.json", why=why)


def _names_a_type(config: dict[str, Any]) -> bool:
    return isinstance(config.get("model_type"), str) and not knows(config)


def _why_unread(config: dict[str, Any]) -> str:
    """Why theory is silent on this model; "" where it is not."""
    if not knows(config):
        return f"theory here knows no models of type {config.get('model_type')!r}"
    try:
        shape_from_config(config)
    except BadInput as unread:
        return f"theory here cannot tell its shape: {unread.args[0]}"
    return ""
