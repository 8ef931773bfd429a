"""The model folder a server is given: a local one as it is, or one made once from a config and kept in a cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.in_process.export import made_whole, run_apart
from twinlens.executors.in_process.weights import with_modelopt
from twinlens.executors.protocol import Say
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.model.quantised import stored_precision
from twinlens.spec.model.shape import DecoderShape
from twinlens.system.document import read_json
from twinlens.system.home_folder import cache_folder

_SEED = 0
_MOST_RECIPE = 100_000
_FORMAT = 1  # of the folders made here: another number, and all are made again
_MAKE = "from twinlens.executors.torch.model.folder import main; main()"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """`digest`: sha256 over the weights' files, 16 hex digits. `made`: the weights are random."""

    path: Path
    digest: str
    made: bool


def servable(ref: AnyModel) -> AnyModel:
    """The model, if it is one that servers of language can serve; of a type that only they know, they will say so
    themselves. Raises BadInput (TL201, TL202)."""
    if ref.shape is not None and not isinstance(ref.shape, DecoderShape):
        raise BadInput(f"{ref.name!r} is no language model; a server cannot be started for it", code="TL202")
    if ref.folder is not None and not any((Path(ref.folder) / name).exists() for name in _TOKENIZERS):
        raise BadInput(
            f"the folder {ref.folder!r} has no tokenizer; a server needs one beside the weights", code="TL201"
        )
    return ref


def stored_in(folder: str | Path | None, config: Mapping[str, Any]) -> str:
    """The precision that a folder is quantised to, "" for none: by its config, and by the recipe that llm-compressor
    leaves beside it, for GPTQ and AWQ write the same config."""
    if folder is None:
        return stored_precision(config)
    return stored_precision(with_modelopt(folder, config), _text(Path(folder) / "recipe.yaml"))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")[:_MOST_RECIPE]
    except OSError:
        return ""


_TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates", "tekken.json")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")


def has_chat_template(folder: Path) -> bool:
    """Whether a folder says how turns of a chat become one prompt; without it servers refuse chats or end at once."""
    if any((folder / name).exists() for name in _TEMPLATES):
        return True
    try:
        said = read_json(folder / "tokenizer_config.json")
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and bool(said.get("chat_template"))


def model_folder(ref: AnyModel, say: Say) -> ModelFolder:
    """The folder with its weights' hash; made now if it is not there yet, in another place and then renamed.

    Raises BadInput for a model that cannot be served and ExecutorFailed (TL302) where making it fails.
    """
    servable(ref)
    if ref.folder is not None:
        path = Path(ref.folder).resolve()
        return ModelFolder(path, _digest(path), made=False)
    path = folder_of(ref)
    if not path.exists():
        say(f"making random weights and a tokenizer for {ref.name} (once)")

        def make(fresh: Path) -> None:
            asked = {"model": ref.name, "folder": str(fresh), "seed": _SEED}
            run_apart(["-c", _MAKE], "the model folder cannot be made", asked)
            _digest(fresh)

        made_whole(path, make, "model folder")
    return ModelFolder(path, _digest(path), made=True)


def folder_of(ref: AnyModel) -> Path:
    """Where the folder of a model is, or will be once it is made."""
    if ref.folder is not None:
        return Path(ref.folder).resolve()
    return cache_folder() / "models" / f"{Path(ref.name).stem}-{_config_digest(ref)}"


def gguf_file(path: str) -> ModelFolder:
    """A GGUF file of the user's, as it is."""
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    return ModelFolder(Path(path).resolve(), digest, made=False)


def _config_digest(ref: AnyModel) -> str:
    asked = json.dumps([_FORMAT, _SEED, ref.config], sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()[:12]


def _digest(path: Path) -> str:
    """The hash of the weights, kept beside folders of the cache: reading gigabytes again for every server is slow."""
    kept = path / "twinlens-weights.json"
    files = sorted(path.glob("*.safetensors"))
    stamps = [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]
    try:
        known = read_json(kept)
        if known["files"] == stamps:
            return str(known["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            whole.update(hashlib.file_digest(opened, "sha256").digest())
    digest = whole.hexdigest()[:16]
    if path.is_relative_to(cache_folder()):  # a folder of the user's is left as it is
        kept.write_text(json.dumps({"files": stamps, "digest": digest}), encoding="utf-8")
    return digest
