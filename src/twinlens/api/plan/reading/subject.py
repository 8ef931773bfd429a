"""Words of a plan read into values: a model, a device, counts, tokens and formats, each refused in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinlens.api.plan.reading.amount import UNREADABLE, count_of, quantity_of, short, tokens_of, usual_format
from twinlens.claims.names import DEVICES, KV_BYTES, USUAL
from twinlens.errors import BadInput, nearest
from twinlens.planning.prediction.work import held_format, kept_cache
from twinlens.planning.probed import probed_device
from twinlens.planning.subject import Subject
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device, no_device
from twinlens.spec.model.config import knows, shape_from_config
from twinlens.spec.model.header import read_gguf, read_safetensors
from twinlens.spec.model.reader.tower import tower_from_config
from twinlens.spec.model.reference import list_models, load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.system.document import read_json
from twinlens.theory.figure import assumed
from twinlens.theory.parameter import parameters, tower_parameters
from twinlens.theory.weight_format import WEIGHT_FORMATS

_USUAL_CONTEXT = 8192


def context_of(context: int | None, subject: Subject) -> int:
    """Tokens of a served user: as asked, else 8K, or as many as the model has positions where these are fewer."""
    if context is not None:
        return context
    return min(_USUAL_CONTEXT, subject.shape.max_context) if subject.shape else _USUAL_CONTEXT


def subject_of(word: str, catalogue: Catalogue) -> Subject:
    """A model by its name, folder or file, or by its size alone: "70B". Raises BadInput (TL201, TL202, TL231)."""
    if word not in list_models() and not Path(word).expanduser().exists() and _is_size(word):
        size = quantity_of("model", word, "params", "write a size or a name: 70B, llama-3.1-8b")
        usual = USUAL.get(size)
        if usual is None:
            return Subject(word, round(size), source="its name")
        return _known(usual, (assumed("model", usual, said=word),))
    path = Path(word).expanduser()
    if word not in list_models() and (path.suffix in (".gguf", ".safetensors") or path.is_dir()):
        return _of_files(word, path)
    own = catalogue.models_folder / f"{word}.json" if catalogue.models_folder else None
    return _known(str(own) if own and own.is_file() else word)


def beside_of(word: str | None, users: int | None, context: int | None, catalogue: Catalogue) -> tuple[Beside, ...]:
    """Models beside the first: "qwen3-8b,8B:32:4K", each with its own users and context or those of the first.

    Raises BadInput (TL201, TL202, TL231).
    """
    words = [each.strip() for each in (word or "").split(",") if each.strip()]
    if word is not None and not words:
        raise BadInput("--beside names no model; write --beside qwen3-8b,8B:32:4K", code=UNREADABLE)
    return tuple(_beside(each, users, context, catalogue) for each in words)


def _beside(word: str, users: int | None, context: int | None, catalogue: Catalogue) -> Beside:
    name, *own = [word] if Path(word).expanduser().exists() else word.split(":")
    if len(own) > 2:
        raise BadInput(f"--beside {short(word)!r} is a model, its users and its context: 8B:32:4K", code=UNREADABLE)
    many, long = [*own, "", ""][:2]
    return (
        subject_of(name, catalogue),
        count_of("beside", many) if many else users,
        tokens_of("beside", long) if long else context,
    )


Beside = tuple[Subject, int | None, int | None]
"""A model, its users and its context as they were asked; None: as the verb takes them."""
Notes = tuple[Finding, ...]
"""How words were read, and what was taken for granted."""


def device_of(word: str, catalogue: Catalogue) -> tuple[Device, Notes]:
    """A device of the catalogue by its name or a short one; noted are a short name, and figures that are unverified.

    Raises BadInput (TL204) with the nearest name.
    """
    plain, names = " ".join(word.lower().replace("-", " ").split()), [each.name for each in catalogue.devices]
    if word.lower() not in names and plain in DEVICES:
        device = catalogue.device(DEVICES[plain])
        return device, (assumed("device", device.name, said=word), *unverified(device))
    same = next((each for each in names if _letters(each) == _letters(word)), None)
    if word.lower() not in names and same is not None:
        device = catalogue.device(same)
        return device, (assumed("device", device.name, said=word), *unverified(device))
    if word.lower() not in names:
        raise no_device(word, [*names, *DEVICES])
    device = catalogue.device(word.lower())
    return device, unverified(device)


def _letters(name: str) -> str:
    """Letters and digits of a name: "RTX4090", "RTX 4090" and "rtx-4090" are one."""
    return "".join(each for each in name.lower() if each.isalnum())


def unverified(device: Device) -> Notes:
    """A note on figures of a device that stand in the catalogue from memory."""
    if not device.unverified:
        return ()
    return (assumed("device-unverified", device.name, cells=", ".join(device.unverified)),)


def asked_device(word: str | None, probe: str | Path | None, catalogue: Catalogue) -> tuple[Device | None, Notes]:
    """The device that was named, the one of a probe ("this"), or None; and notes on it."""
    if probe is not None or word == THIS:
        if word not in (None, THIS):
            raise BadInput(f"--probe is of this machine, and --device {short(word)!r} of another", code=UNREADABLE)
        return this_device(probe), ()
    return device_of(word, catalogue) if word else (None, ())


def weight_format_of(word: str | None, subject: Subject | None) -> str:
    """The format of weights that a word stands for; without one, that of the file, else that which their maker
    publishes, else bf16: of every verb. Raises BadInput (TL203)."""
    if word is None:
        return (subject.own_format if subject else None) or "bf16"
    plain = word.lower()
    name = held_format(usual_format(plain), subject)
    if name not in WEIGHT_FORMATS and (subject is None or name != subject.own_format):
        raise BadInput(f"unknown weight format {short(word)!r}; {nearest(plain, WEIGHT_FORMATS)}", code="TL203")
    return name


def kv_format_of(word: str | None, weight_format: str) -> tuple[str, float]:
    """The format of the cache and its bytes per element; without a word, as servers keep it beside such weights.

    Raises BadInput (TL203).
    """
    if word is None:
        return kept_cache(weight_format)
    plain = word.lower()
    if plain not in KV_BYTES:
        raise BadInput(f"unknown format {short(word)!r} of a KV cache; {nearest(plain, KV_BYTES)}", code="TL203")
    return plain, KV_BYTES[plain]


def _known(name: str, notes: tuple[Finding, ...] = ()) -> Subject:
    try:
        ref = load_model(name)
    except BadInput:
        like = _read_as_llama(name)
        if like is None:
            raise
        return like
    if not isinstance(ref.shape, DecoderShape):
        raise BadInput(f"{name} is no language model; plans are of those that have a KV cache", code="TL202")
    tower, more = _tower(ref.config)
    return Subject(ref.name, parameters(ref.shape).total, ref.shape, ref.source, released=ref.released, tower=tower,
                   assumed=(*notes, *more))  # fmt: skip


def _tower(config: Mapping[str, Any]) -> tuple[int, Notes]:
    """Parameters of the image tower, 0 for a model without one; and a note on one that is not counted."""
    if not isinstance(config.get("vision_config"), Mapping):
        return 0, ()
    try:
        return tower_parameters(tower_from_config(config)), ()
    except BadInput:
        return 0, (assumed("tower-unknown", str(config.get("model_type"))[:40]),)


def _read_as_llama(name: str) -> Subject | None:
    """A model of a type that is not known here, if its config has a dense decoder's numbers and nothing of experts."""
    path = Path(name).expanduser()
    path = path / "config.json" if path.is_dir() else path
    try:
        config = read_json(path) if path.stat().st_size < _MOST_CONFIG else None
    except (OSError, ValueError):
        return None
    if not isinstance(config, dict) or not config.keys() >= _NEEDED or knows(config):
        return None
    if any(mark in str(key) for key in config for mark in _UNLIKE_LLAMA):
        return None
    shape = shape_from_config({**config, "model_type": "llama"})
    if not isinstance(shape, DecoderShape):
        return None
    note = assumed("model-type", str(config.get("model_type"))[:40])
    return Subject(path.stem if path.stem != "config" else path.parent.name, parameters(shape).total, shape,
                   f"{path.name}, read like a Llama's", assumed=(note,))  # fmt: skip


_MOST_CONFIG = 4 * 2**20
_NEEDED = {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"}
_UNLIKE_LLAMA = ("expert", "lora_rank", "ssm", "mamba", "conv", "encoder", "linear_", "sliding")


def _of_files(name: str, path: Path) -> Subject:
    """A model from the headers of its files; of a folder with its config, whose layers are then known."""
    if path.suffix == ".gguf":
        stored = read_gguf(path)
        if not stored.parameters:
            raise BadInput(f"{path.name} does not say how many weights it holds", code="TL233")
        return Subject(path.name, stored.parameters, stored.shape, stored.source, stored.bytes, stored.format)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        return _known(name)
    stored, config = read_safetensors(files), (path if path.is_dir() else path.parent) / "config.json"
    shape = load_model(str(config)).shape if config.is_file() else None
    known = shape if isinstance(shape, DecoderShape) else None
    count = stored.parameters or (parameters(known).total if known else None)
    if count is None:
        raise BadInput(
            f"{path.name} holds packed integers, and only a config.json beside it says how many weights they are",
            code="TL233",
        )
    return Subject(path.name, count, known, stored.source, stored.bytes, stored.format)


def _is_size(word: str) -> bool:
    return word[:1].isdecimal() or word[:1] == "."


# The device "this": from a probe in a file, else by probing this machine now.

THIS = "this"
_MOST_BYTES = 16 * 2**20


def this_device(file: str | Path | None = None) -> Device:
    """The device of a probe. Raises BadInput (TL231) for a file that holds none."""
    if file is None:
        from twinlens.measurement.machine.probe import probe  # what measures is not read to plan for other machines

        return probed_device(encode(probe("auto")))
    path = Path(file).expanduser()
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path.name} is too large for a probe", code="TL231")
        data = read_json(path)
    except (OSError, ValueError) as wrong:
        raise BadInput(f"--probe {path.name!r} cannot be read as JSON ({wrong})", code="TL231") from None
    return probed_device(data if isinstance(data, dict) else {})
