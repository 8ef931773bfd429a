"""Measurements that a page may ask for: examples and their settings, a pasted spec, or a server that is up.

Whoever has the page open may be another person than the one who started the site. So no word from a page names a
program, a file or a variable of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.measuring.spec_asked import as_settings
from twinlens.errors import BadInput, nearest
from twinlens.executors.registry import executor, executor_names
from twinlens.gateway.address import address_of
from twinlens.spec.load import parse
from twinlens.spec.source.attached import attached, refuse_training, usual_load, with_some_load
from twinlens.spec.source.example import Example, example, examples
from twinlens.spec.source.settings import apply_settings
from twinlens.spec.study import Study
from twinlens.system.document import toml_of

CODE = "TL271"
VERBS = ("measure", "tune", "burnin", "demo")
_MOST_LETTERS = 100_000
_MOST_LINES = 50
_PLACES = ("path", "folder", "save", "file", "command", "python", "env", "args")
_PAGE = "set it on the command line or in a spec file there"


@dataclass(frozen=True, slots=True)
class Asked:
    """`example`, or `text` (a spec), or `url`, whose load an example may be. `at`, `set_`: one setting each."""

    verb: str = "measure"
    example: str = ""
    text: str = ""
    url: str = ""
    model: str = ""
    at: tuple[str, ...] = ()
    set_: tuple[str, ...] = ()
    quick: bool = False
    fresh: bool = False
    lasting: str = ""


def asked_of(fields: Mapping[str, Any]) -> Asked:
    """From the fields of a form. Raises BadInput (TL271) for another verb."""
    words = {name: str(value)[:_MOST_LETTERS].strip() for name, value in fields.items() if isinstance(value, str)}
    verb = words.get("verb", "measure")
    if verb not in VERBS:
        raise BadInput(f"a page starts no {verb[:40]!r}; {nearest(verb, VERBS)}", code=CODE)
    lines = {name: tuple(filter(None, map(str.strip, words.get(name, "").splitlines()))) for name in ("at", "set")}
    if max(map(len, lines.values())) > _MOST_LINES:
        raise BadInput(f"a page takes {_MOST_LINES} settings; write a spec file", code=CODE)
    url = address_of(words["url"]) if words.get("url") else ""
    return Asked(verb, words.get("example", ""), words.get("text", ""), url, words.get("model", "")[:200],
                 lines["at"], lines["set"], "quick" in words, "fresh" in words, words.get("for", ""))  # fmt: skip


def fields_of(asked: Asked) -> dict[str, str]:
    """The fields of a form that ask the same: what is started is what was checked."""
    known = {"verb": asked.verb, "example": asked.example, "text": asked.text, "url": asked.url, "model": asked.model,
             "at": "\n".join(asked.at), "set": "\n".join(asked.set_), "quick": "1" if asked.quick else "",
             "fresh": "1" if asked.fresh else "", "for": asked.lasting}  # fmt: skip
    return {name: word for name, word in known.items() if word}


def offered(verb: str) -> list[Example]:
    """The examples that a page offers: those with a table [tune] to tune, the others to measure."""
    return [each for each in examples() if ("[tune" in each.text) is (verb == "tune")]


def study_of(asked: Asked) -> Study | None:
    """The study that is asked for; None for a verb that has its own. Nothing but this machine's examples is read.

    Raises BadInput as the command line does, and (TL271) for what a page may not ask.
    """
    if asked.verb in ("demo", "burnin"):
        return None
    settings = [*as_settings(asked.at), *asked.set_]
    if asked.url and asked.verb == "measure":
        return _of_server(asked, settings)
    if bool(asked.example) == bool(asked.text):
        raise BadInput(f"what is to be {_DONE[asked.verb]}? Choose an example, or paste a spec", code=CODE)
    known, where = _known(asked.example), f"the example {asked.example!r}" if asked.example else "the pasted spec"
    data = _read(asked.text) if asked.text else known
    return parse(_applied(data, settings, known), where=where)


_DONE = {"measure": "measured", "tune": "tuned"}


def _of_server(asked: Asked, settings: list[str]) -> Study:
    """Of a server that is up, which is not asked yet: its model stays what was typed."""
    load = _known(asked.example) if asked.example else usual_load()
    refuse_training(load, asked.example)
    data = attached(load, {"url": asked.url}, asked.model or "the server's own")
    data = _applied(data, settings, data)
    with_some_load(data)
    return parse(data, where=asked.url)


def _known(name: str) -> dict[str, Any]:
    shipped = example(name) if name else None
    return {} if shipped is None else {"name": shipped.name, **toml_of(shipped.text)}


def _read(text: str) -> dict[str, Any]:
    try:
        return {"name": "pasted", **toml_of(text)}
    except ValueError as error:
        raise BadInput(f"the pasted spec is not TOML: {str(error)[:200]}", code="TL202") from None


def _applied(data: dict[str, Any], settings: list[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """The data with its settings. Raises BadInput (TL271) for a word in it that a page may not say, unless it stands
    in `known` at the same place: before anything reads what it names."""
    data = {name: _copied(value) for name, value in data.items()}
    apply_settings(data, settings)
    allowed = set(_words(known, ""))
    for path, word in _words(data, ""):
        if (path, word) not in allowed:
            _refuse(path, word)
    return data


def _refuse(path: str, word: str) -> None:
    field = path.rpartition(".")[2]
    is_option = "executor.options" in path or path.startswith("tune.space")
    if is_option and word not in _choices(field):
        raise BadInput(f"{path} is not set from a page: it may name a program, a file or a secret; {_PAGE}", code=CODE)
    if field in _PLACES or any(mark in word for mark in "/\\\0") or word.startswith((".", "~")):
        raise BadInput(f"{path} = {word[:60]!r} names a place on this machine, and a page may not; {_PAGE}", code=CODE)


def _choices(option: str) -> set[str]:
    """The words that an option of any executor has to choose from."""
    known = (executor(kind).capabilities.options.get(option) for kind in executor_names())
    return {word for each in known if each is not None for word in each.choices}


def _words(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text in spec data with the path of its field; the place in a list does not count."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _words(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _words(inner, path)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(inner) for name, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def words_of(asked: Asked, out: Path, folder: Path | None = None) -> list[str]:
    """The words of the command line, after `twinlens`. `folder`: that of the job, which a pasted spec is written to;
    without one the spec is `spec.toml`."""
    options = [f"--set={each}" for each in asked.set_] if asked.verb in _DONE else []
    if asked.verb == "measure":
        named = {"url": asked.url, "model": asked.model if asked.url else ""}
        options = [*(f"--{name}={word}" for name, word in named.items() if word),
                   *(f"--at={each}" for each in asked.at), *options, *(["--quick"] if asked.quick else [])]  # fmt: skip
    if asked.verb == "burnin":
        options = [f"--for={asked.lasting or '5m'}"]
    spec = [_spec(asked, folder)] if asked.verb in _DONE and (asked.example or asked.text) else []
    return [asked.verb, *spec, *options, *(["--fresh"] if asked.fresh else []), f"--out={out}"]


def _spec(asked: Asked, folder: Path | None) -> str:
    """An example by its name, unless a file here has that name too: a file would go before it."""
    text = asked.text or (example(asked.example).text if Path(asked.example).exists() else "")
    if not text or folder is None:
        return "spec.toml" if asked.text else asked.example
    named = f"{asked.example or 'pasted'}.toml"
    (folder / named).write_text(text, "utf-8")
    return str(folder / named)
