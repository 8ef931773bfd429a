"""One sentence on the wrong fields of a spec: all that are misspelt at once, with the nearest names."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ValidationError

from twinlens.errors import nearest
from twinlens.spec.field import models_in, tag_of
from twinlens.spec.source.earlier import MOVED
from twinlens.spec.study import Study

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


def wrong_fields(error: ValidationError) -> str:
    """One sentence. Unknown fields stand before missing ones: the second is often the first, misspelt."""
    errors = sorted(error.errors(include_url=False), key=lambda entry: entry["type"] != "extra_forbidden")
    unknown = [entry for entry in errors if entry["type"] == "extra_forbidden"]
    sentences = list(dict.fromkeys(_sentence(entry) for entry in (unknown or errors[:1])))
    more = f"; and {len(sentences) - _MOST} more" if len(sentences) > _MOST else ""
    return " ".join(f"{'; '.join(sentences[:_MOST])}{more}".split())


def nearest_field(word: str, known: list[str]) -> str:
    """The nearest name of a field, also by what other tools call it, or by its beginning."""
    plain = _plain(word)
    begun = [name for name in known if len(plain) > 2 and name.startswith(f"{plain}_")]
    guess = next((name for name in (_ELSEWHERE.get(plain), plain, *begun[:1]) if name in known), None)
    return f"did you mean {guess!r}?" if guess else nearest(word, known)


def _sentence(first: Any) -> str:
    # Union tags ("training", "markov") stand in the location beside real field names; people know only the fields.
    location = [str(part) for part in first["loc"]]
    shown = ".".join(part for part in location if part not in _TAGS) or "the file"
    if shown in MOVED:
        return f"field {shown!r} has moved: write {MOVED[shown]!r}"
    if first["type"] == "extra_forbidden":
        return f"unknown field {shown!r}; {_known_here_or_elsewhere(location)}"
    if first["type"] == "missing":
        return f"field {shown!r} is missing"
    if seconds := _seconds(location[-1] if location else "", first.get("input")):
        return f"field {shown!r} is a number of seconds: write {seconds} (got {first.get('input')!r})"
    message = first["msg"].removeprefix("Value error, ")
    return f"field {shown!r}: {message[0].lower()}{message[1:]} (got {_short(first.get('input'))})"


def _known_here_or_elsewhere(location: list[str]) -> str:
    """The field that is meant: one of the same table, else one of this very name (ours or other tools') in another."""
    here = _fields_at(location[:-1])
    name = _plain(location[-1])
    name = _ELSEWHERE.get(name, name)
    others = [f"{table}.{name}" for table in _TABLES if name not in here and name in _fields_at([table])]
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


def _fields_at(location: list[str]) -> list[str]:
    models: list[type[BaseModel]] = [Study]
    for part in location:
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
