"""The identity of a model's weights, without reading them into a framework."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from twinlens.spec.model.any_model import Model


def weights_hash(ref: Model, seed: int, drawn: str = "") -> str:
    """Identifies the weights: the files' contents, or for random weights the config, the seed and what drew them.

    `drawn`: "" for fp32 on the CPU; a GPU draws other numbers from the same seed.
    """
    digest = hashlib.sha256()
    if ref.folder is None:
        identity = [plain_config(ref), seed, "random", *([drawn] if drawn else [])]
        digest.update(json.dumps(identity, sort_keys=True).encode())
        return digest.hexdigest()[:16]
    for path in sorted(Path(ref.folder).glob("*.safetensors")):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def plain_config(ref: Model) -> dict[str, object]:
    """The config without our own notes and without names of code."""
    return {key: value for key, value in ref.config.items() if not key.startswith("_") and key != "auto_map"}
