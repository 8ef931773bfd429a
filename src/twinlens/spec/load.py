"""Reading and writing specs: TOML in, checked values out, and one clear sentence when something is wrong."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from twinlens.errors import BadInput
from twinlens.spec.consistency import refuse_unpaired, refuse_unsearchable
from twinlens.spec.precision import precision
from twinlens.spec.slices import refuse_unsliceable
from twinlens.spec.study import SCHEMA, Study, place, refuse_too_large
from twinlens.spec.workload.length_file import lengths_seen
from twinlens.spec.wrong_field import wrong_fields

_ADDRESS = (
    "a spec is a TOML file and no address; to measure a server that is up, take a spec with executor.kind "
    '"openai-http" and --set executor.options.url="http://…/v1"'
)


def load(path: str | Path, settings: Iterable[str] = ()) -> Study:
    """Read a spec file, apply `path=value` settings, and check it. Raises BadInput with one sentence."""
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8")
        if text.startswith("\ufeff"):
            sentence = "begins with a byte order mark (BOM), which TOML does not have; save it as UTF-8 without one"
            raise BadInput(f"{path} {sentence}", code="TL202")
        data = tomllib.loads(text)
    except FileNotFoundError:
        if str(path).startswith(("http:/", "https:/")):
            raise BadInput(_ADDRESS, code="TL202") from None
        sentence = f"there is no spec file {str(path)!r}; `twinlens list examples` names some"
        raise BadInput(sentence, code="TL202") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the spec file {str(path)!r}: {error}", code="TL202") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}", code="TL202") from None
    data.setdefault("name", source.stem)
    return parse(data, settings, where=str(path))


def parse(data: dict[str, Any], settings: Iterable[str] = (), where: str = "spec") -> Study:
    """Check spec data. Raises BadInput naming the field, what is wrong with it, and the nearest right name."""
    for setting in settings:
        _apply(data, setting)
    if data.get("schema", SCHEMA) != SCHEMA:
        sentence = f"schema {data['schema']!r} is not the {SCHEMA} this version reads; update twinlens or the file"
        raise BadInput(f"{where}: {sentence}", code="TL202")
    for table in ("executor", "sweep"):
        for path in _nothings(data.get(table), table):
            raise BadInput(f"{where}: field {path!r} is nothing (null), for which TOML has no word", code="TL202")
    for path, number in _not_finite(data, ""):
        raise BadInput(f"{where}: field {path!r} is {number}; give a finite number", code="TL202")
    try:
        _read_lengths(data)
        study = Study.model_validate_json(json.dumps(data, default=str))  # TOML's dates are words here
        if study.search is not None:
            refuse_unsearchable(study.search, study.workload, study.point, study.sweep, study.protocol)
        refuse_unsliceable(study)
        refuse_too_large(study)
        for run in study.point_runs():
            precision(run.point.precision).classes(run.lens)
            refuse_unpaired(run.workload, run.point)
    except ValidationError as error:
        raise BadInput(f"{where}: {wrong_fields(error)}", code="TL202") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{where}: {' '.join(str(error).split())[:300]}", code="TL202") from None
    except BadInput as error:
        raise BadInput(f"{where}: {error}", code=error.code) from None
    return study


def dump(study: Study) -> str:
    """The spec as TOML, the inverse of `load`; fields that are None are left out, TOML has no word for them."""
    return tomli_w.dumps(_without_none(study.to_dict()))


def _apply(data: dict[str, Any], setting: str) -> None:
    path, equals, text = setting.partition("=")
    if not equals or not path.strip():
        raise BadInput(f"--set wants path=value, not {setting!r}; for example --set point.batch=8", code="TL204")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string: --set point.precision=bf16
    try:
        place(data, path.strip(), value)
        for union, kind in _DEFAULT_KINDS.items():  # a field of a table that the file leaves out: of its default kind
            if path.startswith(f"{union}."):
                table = data["workload"][union.partition(".")[2]]
                table.setdefault("kind", kind)
    except TypeError as error:
        raise BadInput(f"--set {setting}: {error}", code="TL204") from None
    _replace(data, path.strip(), value)


def _replace(data: dict[str, Any], path: str, value: Any) -> None:
    """What is set is what runs: a value replaces a sweep and a search over the same field, and a search both others."""
    kind, _, field = path.partition(".")
    if path == "search.over":
        kind, field = "search", str(value)
    holders = {"point": ("sweep", "search"), "sweep": ("search",), "search": ("sweep", "point")}.get(kind, ())
    for holder in holders:
        table = data.get(holder)
        if not isinstance(table, dict):
            continue
        if holder == "search":
            if field == table.get("over", "rate_per_s"):
                del data["search"]
        else:
            table.pop(field, None)


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


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value


_DEFAULT_KINDS = {"workload.data": "markov", "workload.input_tokens": "fixed", "workload.output_tokens": "fixed"}
