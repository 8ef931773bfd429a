"""The source of a spec: a file, the name of a shipped example, or the folder of a study or run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.spec.source.earlier import modern
from twinlens.spec.source.example import example_data, examples, find_example
from twinlens.system.document import Unreadable, read_json, read_text, toml_of

_RECORDS = ("study.json", "run.json")
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
    """The spec of a study or a run; of a run, the study of its one point, which has no others to take turns with."""
    try:
        spec = read_json(record)["asked"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{record} does not say what was asked ({error}); restore it", code="TL205") from None
    if not isinstance(spec, dict):
        raise BadInput(f"{record} does not say what was asked; restore it", code="TL205")
    known = {key: _without_none(value) for key, value in modern(spec).items() if value is not None and key != "repeat"}
    if record.name == "run.json" and isinstance(protocol := known.get("protocol"), dict):
        known["protocol"] = protocol | {"pairing": "none"}
    return known


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value
