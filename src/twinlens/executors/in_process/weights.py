"""A model before an engine has it: the identity and format of its weights, and models that no engine here runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.record.executor.record import Fact, declared, observed
from twinlens.record.finding import Finding
from twinlens.spec.model.any_model import Model
from twinlens.spec.model.header import types_and_shapes
from twinlens.spec.model.quantised import scale_blocks, stored_precision
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import Precision
from twinlens.system.document import read_json

SCALE = "_scale_inv"
"""Behind the name of a matrix in fp8, the name of the scales that its blocks are multiplied by."""
_SCALES = ("F32", "BF16", "F16", "F8_E8M0")


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


def model_facts(ref: Model, seed: int, drawn: str = "") -> dict[str, Fact]:
    """Name and hash of the model; `drawn` as for `weights_hash`."""
    where = "weights" if ref.folder else "config, seed and generator"
    return {
        "model.id": declared(ref.name, ref.source),
        "model.weights_hash": observed(weights_hash(ref, seed, drawn), where),
    }


def regime_facts(regime: Precision, named_by: str = "spec") -> dict[str, Fact]:
    """The precision as it is declared. `named_by`: where its name is from."""
    return {
        "precision.name": declared(regime.name, named_by),
        "precision.method": declared(regime.method, "spec/precision.py"),
        "precision.calibration": declared("none needed", "spec/precision.py"),
        "precision.detail": declared("plain", "spec/precision.py"),
    }


def lockstep_facts(batch: int, where: str) -> dict[str, Fact]:
    """The facts of serving in batches of requests that are due together. `where`: the file that does it."""
    return {
        "serving.batching": observed("lockstep batches", where),
        "serving.max_sequences": observed(batch, "point.batch"),
        "serving.prefix_cache": observed("none", where),
        "serving.speculative": observed("none", where),
        "serving.chunked_prefill": observed("no", where),
        "decoding.strategy": observed("greedy", where),
        "decoding.stop": observed("forced length", where),
        "point.batch_achieved": observed(batch, "lockstep"),
    }


def finding_on_weights(ref: Model) -> Finding | None:
    """Weights that are not those that somebody trained, or not in the format that they were released in."""
    if ref.folder is None:
        return Finding("random-weights", "notes", ref.name)
    if not ref.config.get("quantization_config"):
        return None
    return Finding("weights-expanded", "notes", ref.name, {"stored": _stored(ref.config)})


def refuse_unread(ref: Model) -> None:
    """Raises BadInput: TL202 for a quantised folder whose weights no engine here can be given in 16 or 32 bits, TL201
    where one in fp8 has not a scale for each block of each matrix."""
    config = ref.config if ref.folder is None else with_modelopt(ref.folder, ref.config)
    if ref.folder is None or not config.get("quantization_config") or is_mxfp4(ref):
        return
    if (block := scale_blocks(ref.config)) is None:
        raise BadInput(
            f"the weights of {ref.name} are quantised to {_stored(config)}, which servers alone load; serve them "
            '(executor.kind = "vllm"), or name the folder that they were made from',
            code="TL202",
        )
    found = types_and_shapes(sorted(Path(ref.folder).glob("*.safetensors")))
    for name, (kind, shape) in found.items():
        if not kind.startswith("F8") or name.endswith(SCALE):
            continue
        has, sizes = found.get(name + SCALE, ("", []))
        wanted = [*shape[:-2], *(-(-size // each) for size, each in zip(shape[-2:], block, strict=False))]
        if has not in _SCALES or sizes != wanted or len(shape) < 2:
            raise BadInput(
                f"{name} of {ref.name} is fp8 and needs {_times(wanted)} scales, one for each {_times(block)} weights, "
                f"and {name}{SCALE} has {_times(sizes) if has in _SCALES else 'none'}",
                code="TL201",
            )


def with_modelopt(folder: str | Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config with what ModelOpt wrote into a file of its own, `hf_quant_config.json`, where it has none of it."""
    beside = Path(folder) / "hf_quant_config.json"
    if "quantization_config" in config or not beside.is_file():
        return config
    try:
        said = read_json(beside).get("quantization")
    except (OSError, ValueError):
        return config
    return {**config, "quantization_config": {"quant_method": "modelopt", **said}} if isinstance(said, dict) else config


def is_mxfp4(ref: Model) -> bool:
    """Whether its experts are in MXFP4 as GPT-OSS is released, which transformers expands."""
    quantised = ref.config.get("quantization_config")
    return isinstance(quantised, dict) and quantised.get("quant_method") == "mxfp4"


def _stored(config: Mapping[str, Any]) -> str:
    block = scale_blocks(config)
    name = stored_precision(config) or "a format without a name"
    return f"{name} with a scale for each {_times(block)} weights" if block else name


def _times(sizes: Sequence[int]) -> str:
    return " × ".join(map(str, sizes)) or "1"


def plain_config(ref: Model) -> dict[str, object]:
    """The config without our own notes, names of code and the format that a folder's weights are stored in."""
    left = ("auto_map", "quantization_config")
    return {key: value for key, value in ref.config.items() if not key.startswith("_") and key not in left}


_RECURRENT = frozenset(
    (
        "falcon_h1",
        "falcon_mamba",
        "lfm2",
        "lfm2_moe",
        "mamba",
        "mamba2",
        "recurrent_gemma",
        "rwkv",
        "xlstm",
        "zamba",
        "zamba2",
    )
)
_LAYERS = frozenset(("conv", "linear_attention", "mamba", "recurrent"))
"""Types that theory does not read and that always keep a state, and names of such layers in the configs of others."""
_ELSEWHERE = 'serve it instead (executor.kind = "vllm"), or train it in a loop of your own (tl.watch)'


def refuse_unbuilt(ref: Model) -> None:
    """Raises BadInput (TL202) for a model that takes images beside text, or that theory knows to be recurrent."""
    if "text_config" in ref.config or "vision_config" in ref.config:
        raise BadInput(
            f"{ref.name} takes images beside text, and the embedded engine text alone; {_ELSEWHERE}", code="TL202"
        )
    if isinstance(ref.shape, DecoderShape) and ref.shape.recurrent:
        raise recurrent(ref.name)


def refuse_unanswered(ref: Model) -> None:
    """Raises BadInput (TL202) for a model whose answers no engine of this process gives, as far as its config says so;
    the rest is seen when its cache is made. It can be trained."""
    named = ref.config.get("layer_types") or ref.config.get("layers_block_type") or ()
    layers = {name for name in named if isinstance(name, str)} if isinstance(named, list) else set[str]()
    if ref.config.get("model_type") in _RECURRENT or layers & _LAYERS:
        raise recurrent(ref.name)


def recurrent(name: str) -> BadInput:
    """The refusal of a model that keeps a state which no position of the cache gives back."""
    return BadInput(
        f"{name} has recurrent layers, whose state the embedded engine cannot move; {_ELSEWHERE}", code="TL202"
    )
