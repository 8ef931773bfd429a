"""Reading and writing specs: TOML in, checked values out, and one clear sentence when something is wrong."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from twinlens.errors import BadInput
from twinlens.spec.consistency import refuse_unpaired, refuse_unread_adapter, refuse_unsearchable
from twinlens.spec.precision import AS_FOUND, AS_SERVED
from twinlens.spec.slices import refuse_unsliceable
from twinlens.spec.source.attached import source_of, without_none
from twinlens.spec.source.example import example_data
from twinlens.spec.source.settings import apply_settings, choose_arrival, swept_fields
from twinlens.spec.study import SCHEMA, RunSpec, Study, refuse_too_large
from twinlens.spec.workload.length import lengths_seen
from twinlens.spec.wrong_field import wrong_fields


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
