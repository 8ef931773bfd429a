"""Reading and writing specs: TOML in, checked values out, and one clear sentence when something is wrong."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError

from twinlens.errors import BadInput, nearest
from twinlens.spec.consistency import refuse_unpaired, refuse_unread_adapter, refuse_unsearchable
from twinlens.spec.field import models_in, tag_of
from twinlens.spec.precision import AS_FOUND, AS_SERVED
from twinlens.spec.slices import refuse_unsliceable
from twinlens.spec.source.attached import source_of, without_none
from twinlens.spec.source.earlier import MOVED
from twinlens.spec.source.example import example_data
from twinlens.spec.source.settings import apply_settings, choose_arrival, swept_fields
from twinlens.spec.study import SCHEMA, RunSpec, Study, refuse_too_large
from twinlens.spec.workload.length import lengths_seen


def load(spec: str | Path, settings: Iterable[str] = ()) -> Study:
    """Read a spec file, a shipped example by its name, or what a study or run folder was asked for; apply `path=value`
    settings, and check it. Raises BadInput with one sentence."""
    source = source_of(spec)
    return parse(source.data, settings, where=source.where)


def load_example(name: str) -> Study:
    """A shipped example, whatever files there are. Raises BadInput with the nearest name."""
    return parse(example_data(name), where=f"the example {name!r}")


def parse(data: dict[str, Any], settings: Iterable[str] = (), where: str = "spec") -> Study:
    """Check spec data, which stays as it is. Raises BadInput naming the field, what is wrong with it, and the nearest
    right name."""
    data, settings = copy.deepcopy(data), tuple(settings)
    apply_settings(data, settings)
    choose_arrival(data)
    _choose_precision(data)
    _choose_of_log(data)
    if data.get("schema", SCHEMA) != SCHEMA:
        sentence = f"schema {data['schema']!r} is not the {SCHEMA} this version reads; update twinlens or the file"
        raise BadInput(f"{where}: {sentence}", code="TL202")
    for table in ("executor", "sweep", "variants"):
        for path in _nothings(data.get(table), table):
            raise BadInput(f"{where}: field {path!r} is nothing (null), which TOML cannot express", code="TL202")
    for path, number in _not_finite(data, ""):
        raise BadInput(f"{where}: field {path!r} is {number}; give a finite number", code="TL202")
    try:
        _read_lengths(data)
        study = Study.model_validate_json(json.dumps(data, default=str))  # TOML's dates are words here
        if study.search is not None:
            refuse_unsearchable(study.search, study.workload, study.point, study.swept, study.protocol)
        refuse_unread_adapter(study.workload, study.swept)
        refuse_too_large(study)
        if settings and not any(each.strip().startswith("protocol.pairing") for each in settings):
            study = _unpaired_alone(study)
        refuse_unsliceable(study)
        for run in study.point_runs():
            _refuse_precision(run)
            refuse_unpaired(run.workload, run.point, run.executor.kind)
    except ValidationError as error:
        raise BadInput(f"{where}: {wrong_fields(error)}", code="TL202") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{where}: {' '.join(str(error).split())[:300]}", code="TL202") from None
    except BadInput as error:
        raise BadInput(f"{where}: {error}", code=error.code) from None
    return study


def _unpaired_alone(study: Study) -> Study:
    """A study that settings narrowed to one point takes no turns: what the file says of them is meant for several."""
    if study.protocol.pairing == "none" or study.search is not None or len(study.points()) != 1:
        return study
    return study.model_copy(update={"protocol": study.protocol.model_copy(update={"pairing": "none"})})


def _refuse_precision(run: RunSpec) -> None:
    regime = run.precision
    if run.lens != "collective":  # whose elements have a format, and no class of tensors
        regime.classes(run.lens)
    if regime == AS_FOUND and run.executor.kind != "trainer-log":
        sentence = f"precision {regime.name!r} is what tl.watch finds in a loop of your own"
        raise BadInput(f"{sentence}; name one: `twinlens list precisions`", code="TL203")
    if regime == AS_SERVED and run.executor.kind != "openai-http":
        sentence = f"precision {regime.name!r} is that of a server which is up already (executor.kind openai-http)"
        raise BadInput(f"{sentence}; name one: `twinlens list precisions`", code="TL203")


def dump(study: Study) -> str:
    """The spec as TOML, the inverse of `load`; fields that are None are left out, TOML has no word for them."""
    return tomli_w.dumps(without_none(study.to_dict()))


def _choose_precision(data: dict[str, Any]) -> None:
    """A server that is up, and a trainer of which there is a log, compute as they were started: a precision that nobody
    names is no fp32."""
    executor, point = (data.get(name, {}) for name in ("executor", "point"))
    if not all(isinstance(table, dict) for table in (executor, point)):
        return  # said by the check of types
    unnamed = {"openai-http": AS_SERVED, "trainer-log": AS_FOUND}.get(str(executor.get("kind")))
    if unnamed is not None and "precision" not in {*point, *swept_fields(data)}:
        data["point"] = {**point, "precision": unnamed.name}


def _choose_of_log(data: dict[str, Any]) -> None:
    """A log is one run: to read it again adds nothing, and its command is not started again unasked. It says neither
    its optimizer nor its data."""
    executor = data.get("executor")
    if not isinstance(executor, dict) or executor.get("kind") != "trainer-log":
        return
    unnamed: dict[str, dict[str, Any]] = {
        "protocol": {"repeats": 1, "retakes": 0},
        "workload": {"optimizer": "own", "data": {"kind": "own"}},
    }
    for name, chosen in unnamed.items():
        if isinstance(table := data.get(name, {}), dict):
            data[name] = chosen | table


def _not_finite(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """Paths of infinite and undefined numbers, which JSON cannot hold, wherever they stand (options too)."""
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _not_finite(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _not_finite(item, path)


def _nothings(value: Any, path: str) -> Iterator[str]:
    """Paths of None, which only Python and JSON can say: it would be lost on the way to a file and back."""
    if value is None and ("." in path or "[" in path):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nothings(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _nothings(item, f"{path}[]")


def _read_lengths(data: dict[str, Any]) -> None:
    """Put the values in place of each empirical length's file, so that the run says itself what it drew from."""
    workload = data.get("workload")
    for field in ("input_tokens", "output_tokens") if isinstance(workload, dict) else ():
        length = workload.get(field)  # type: ignore[union-attr]
        if length == "free":
            workload[field] = {"kind": "free"}  # type: ignore[index]
        if isinstance(length, dict) and length.get("kind") == "empirical" and "path" in length:
            path, column = length.pop("path"), length.pop("column", field)
            length |= lengths_seen(str(path), str(column))


# One sentence on the wrong fields of a spec: all that are misspelt at once, with the nearest names.

_MOST = 4
_ELSEWHERE = {
    "bs": "batch", "batch_size": "batch", "micro_batch": "microbatch", "dtype": "precision", "rate": "rate_per_s",
    "qps": "rate_per_s", "rps": "rate_per_s", "request_rate": "rate_per_s", "users": "concurrency",
    "max_concurrency": "concurrency", "concurrent": "concurrency", "streams": "concurrency", "lr": "learning_rate",
    "time": "duration_s", "duration": "duration_s", "runs": "repeats", "seeds": "seed",
}  # fmt: skip
"""Names that other tools have for our fields."""
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|m|min|h|d)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def wrong_fields(error: ValidationError, of: type[BaseModel] = Study) -> str:
    """One sentence on the fields of a value `of` this model. Unknown fields stand before missing ones: the second is
    often the first, misspelt."""
    errors = sorted(error.errors(include_url=False), key=lambda entry: entry["type"] != "extra_forbidden")
    unknown = [entry for entry in errors if entry["type"] == "extra_forbidden"]
    sentences = list(dict.fromkeys(_sentence(entry, of) for entry in (unknown or errors[:1])))
    more = f"; and {len(sentences) - _MOST} more" if len(sentences) > _MOST else ""
    return " ".join(f"{'; '.join(sentences[:_MOST])}{more}".split())


def nearest_field(word: str, known: list[str]) -> str:
    """The nearest name of a field, also by what other tools call it, or by its beginning."""
    plain = _plain(word)
    begun = [name for name in known if len(plain) > 2 and name.startswith(f"{plain}_")]
    guess = next((name for name in (_ELSEWHERE.get(plain), plain, *begun[:1]) if name in known), None)
    return f"did you mean {guess!r}?" if guess else nearest(word, known)


def _sentence(first: Any, of: type[BaseModel]) -> str:
    # Union tags ("training", "markov") stand in the location beside real field names; people know only the fields.
    location = [str(part) for part in first["loc"]]
    shown = ".".join(part for part in location if part not in _TAGS) or "the file"
    if shown in MOVED:
        return f"field {shown!r} has moved: write {MOVED[shown]!r}"
    if first["type"] == "extra_forbidden":
        return f"unknown field {shown!r}; {_known_here_or_elsewhere(location, of)}"
    if first["type"] == "missing":
        return f"field {shown!r} is missing"
    if seconds := _seconds(location[-1] if location else "", first.get("input")):
        return f"field {shown!r} is a number of seconds: write {seconds} (got {first.get('input')!r})"
    message = first["msg"].removeprefix("Value error, ")
    return f"field {shown!r}: {message[0].lower()}{message[1:]} (got {_short(first.get('input'))})"


def _known_here_or_elsewhere(location: list[str], of: type[BaseModel]) -> str:
    """The field that is meant: one of the same table, else one of this very name (ours or other tools') in another."""
    here = _fields_at(location[:-1], of)
    name = _plain(location[-1])
    name = _ELSEWHERE.get(name, name)
    others = [f"{table}.{name}" for table in _TABLES if name not in here and name in _fields_at([table], of)]
    return f"did you mean {others[0]!r}?" if others else nearest_field(location[-1], here)


_TABLES = ("workload", "point", "protocol")


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")


def _seconds(field: str, value: Any) -> str:
    """A length of time with a unit as the number that a field of seconds wants; "" where it is none."""
    match = _LENGTH.fullmatch(value.strip().lower()) if field.endswith("_s") and isinstance(value, str) else None
    return f"{float(match[1]) * _SECONDS[match[2]]:g}" if match else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _fields_at(location: list[str], of: type[BaseModel]) -> list[str]:
    models: list[type[BaseModel]] = [of]
    for part in location:
        if part.isdigit():  # a place in a list
            continue
        if part in _TAGS:
            models = [m for m in models if tag_of(m) == part] or models
            continue
        models = [
            inner for m in models if part in m.model_fields for inner in models_in(m.model_fields[part].annotation)
        ]
    return sorted({field.alias or name for m in models for name, field in m.model_fields.items()})


_TAGS = {"training", "inference", "markov", "text", "images", "fixed", "uniform", "lognormal", "empirical", "free"}
_TAGS |= {"lockstep", "constant", "poisson", "gamma", "ramp", "trace", "closed", "single-stream", "offline"}
_TAGS |= {"synthetic", "file", "folder", "generate", "embed", "rerank", "classify"}
