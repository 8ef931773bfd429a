"""The spec of a server that is up already, from what it said of itself: nobody has to write a file for that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.spec.precision import AS_SERVED
from twinlens.spec.source.earlier import modern
from twinlens.spec.source.example import example_data, examples, find_example
from twinlens.spec.source.settings import choose_arrival, variants_in
from twinlens.system.document import Unreadable, read_json, read_text, toml_of

_CONCURRENCY = (1, 4, 16)
"""Where nobody says how hard: closed loops, which no server is too slow for."""
_ANOTHERS = ("executor.", "precision", "point.precision", "batch", "point.batch")


def usual_load() -> dict[str, Any]:
    """The load where no spec is given: lengths of a short chat, one repeat, no SLO."""
    return {
        "workload": {
            "kind": "inference",
            "input_tokens": {"kind": "fixed", "value": 256},
            "output_tokens": {"kind": "fixed", "value": 128},
        },
        "protocol": {"repeats": 1, "steady_s": 20.0},
    }


def fit_steady(data: dict[str, Any]) -> None:
    """Ask no longer steady time of a run than a third of its duration, where that is given."""
    protocol = _table(data, "protocol")
    duration_s = protocol.get("duration_s")
    if isinstance(duration_s, int | float) and duration_s > 0:
        protocol["steady_s"] = min(protocol["steady_s"], round(duration_s / 3, 3))


def attached(data: dict[str, Any], options: dict[str, Any], model: str) -> dict[str, Any]:
    """The load of spec data on the server of these options of openai-http, which serves `model`.

    What was said of another executor is left out: its options, precision and batch, and sweeps over them.
    """
    own = {
        "name": data.get("name") or name_of(model),
        "executor": {"kind": "openai-http", "options": options},
        "workload": {**_table(data, "workload"), "kind": "inference", "model": model},
        "point": {**_without(_table(data, "point"), _ANOTHERS), "precision": AS_SERVED.name},
        "sweep": _without(_table(data, "sweep"), _ANOTHERS),
        "variants": [kept for grid in variants_in(data) if (kept := _without(grid, _ANOTHERS))],
        "protocol": _without(_table(data, "protocol"), ("stall",)),
    }
    return {**data, **own}


def refuse_training(data: dict[str, Any], where: str) -> None:
    """Raises BadInput (TL202) for a spec of the other lens."""
    if _table(data, "workload").get("kind") == "training":
        raise BadInput(f"{where} is a spec of training; a server that is up is measured at inference", code="TL202")


def with_some_load(data: dict[str, Any]) -> None:
    """Ask for closed loops where neither the spec nor its settings say how hard."""
    choose_arrival(data)
    if "arrival" not in _table(data, "workload"):
        data["sweep"] = {**_table(data, "sweep"), "concurrency": list(_CONCURRENCY)}
        choose_arrival(data)


def name_of(model: str) -> str:
    """A name for folders: the last part of the served name, in letters that a folder may have."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", model.rstrip("/").rpartition("/")[2]).strip("-._")
    return plain[:60] or "server"


def _without(table: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if not key.startswith(names)}


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name)
    return table if isinstance(table, dict) else {}


# The source of a spec: a file, the name of a shipped example, or the folder of a study or run.

_RECORDS = ("study.json", "run.json")
TRAFFIC = "traffic"
"""The code of the finding by which a run says that clients came as they liked: nothing ranks it."""
_MOST_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Source:
    """Spec data that is not checked yet. `where`: what error sentences call it."""

    where: str
    data: dict[str, Any]


def source_of(word: str | Path) -> Source:
    """Read what `word` names. A file goes before an example of the same name. Raises BadInput (TL202)."""
    path = Path(word)
    if path.is_dir() and (record := next((path / name for name in _RECORDS if (path / name).is_file()), None)):
        return Source(str(path), _asked(record))
    if not path.is_file() and (shipped := find_example(str(word))) is not None:
        return Source(f"the example {shipped.name!r}", example_data(shipped.name))
    data = _file(path, str(word))
    data.setdefault("name", path.stem)
    return Source(str(word), data)


def _file(path: Path, word: str) -> dict[str, Any]:
    try:
        text = read_text(path, _MOST_BYTES)
        if text.startswith("\ufeff"):
            sentence = "begins with a byte order mark (BOM), which TOML does not have; save it as UTF-8 without one"
            raise BadInput(f"{word} {sentence}", code="TL202")
        return toml_of(text)
    except FileNotFoundError:
        if word.startswith(("http:/", "https:/")):
            sentence = "a server that is up is measured with `twinlens measure --url http://127.0.0.1:8000/v1`"
            raise BadInput(f"{word!r} is an address and no spec; {sentence}", code="TL202") from None
        near = nearest(path.stem, [shipped.name for shipped in examples()])
        hint = (
            f"{near} `twinlens list examples` names those that are shipped"
            if near.startswith("did")
            else ("`twinlens list examples` names those that are shipped")
        )
        raise BadInput(f"there is no spec file {word!r} and no example of that name; {hint}", code="TL202") from None
    except (OSError, UnicodeDecodeError, Unreadable) as error:
        raise BadInput(f"cannot read the spec file {word!r}: {error}", code="TL202") from None
    except ValueError as error:
        raise BadInput(f"{word} is not TOML: {error}", code="TL202") from None


def _asked(record: Path) -> dict[str, Any]:
    """The spec of a study or a run; of a run, the study of its one point, which has no others to take turns with.

    Of a day of a gateway's traffic, whose load nobody set: its requests as they came.
    """
    try:
        said = read_json(record)
        spec = said["asked"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{record} does not say what was asked ({error}); restore it", code="TL205") from None
    if not isinstance(spec, dict):
        raise BadInput(f"{record} does not say what was asked; restore it", code="TL205")
    known = {key: without_none(value) for key, value in modern(spec).items() if value is not None and key != "repeat"}
    if record.name == "run.json" and isinstance(protocol := known.get("protocol"), dict):
        known["protocol"] = protocol | {"pairing": "none"}
        if _is_traffic(said):
            known["workload"]["arrival"] = {"kind": "trace", "path": str(record.parent), "format": "run"}
            known["point"].pop("rate_per_s", None)
    return known


def _is_traffic(said: dict[str, Any]) -> bool:
    findings = _table(said, "facts").get("findings")
    return isinstance(findings, list) and any(_table({"": each}, "").get("code") == TRAFFIC for each in findings)


def without_none(value: Any) -> Any:
    """Tables without what is None, for which TOML has no word."""
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    return [without_none(item) for item in value] if isinstance(value, list) else value
