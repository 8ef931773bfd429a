"""Words of an address read as those of a verb, refused where they name a file, and told again for shell and Python."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from twinlens.api.question import said
from twinlens.errors import BadInput, nearest, unknown_option
from twinlens.pages.verbs import Row, verbs
from twinlens.web.page import AS

CODE = "TL270"
STYLES = ("ask.css",)
"""The style sheet of this room's pages, beside that of the site."""
Words = dict[str, Any]
"""What was said, by the field of the question: a str, True of a flag, or several in a tuple."""
RUN = "RUN"
_OF_THE_PAGE = frozenset({AS, "charts", "token"})
_FILES = ("FILE", "FOLDER", "SPEC", "PACK", "KEY")
_NAMED = ("NAME", "NAMES")
_MODEL_FILES = (".gguf", ".json", ".safetensors", ".toml")
_NO = frozenset({"", "0", "no", "false", "off"})
_MOST = 4000
"""Letters of one word of an address."""


def row_of(verb: str) -> Row:
    """A verb of the table. Raises BadInput (TL204) with the nearest."""
    row = verbs().get(verb)
    if row is None or "run" not in row:
        raise BadInput(f"there is no verb {verb[:40]!r}; {nearest(verb, verbs())}", code="TL204")
    return row


def options_of(row: Row) -> tuple[Row, ...]:
    """The options that a page may say: not those that tell how an answer is printed or written."""
    return tuple(each for each in row["options"] if each.get("head") != "Output" and not each.get("hidden"))


def names_file(option: Row) -> bool:
    """Whether its word is a file or a folder of the machine that serves the page, other than a run."""
    metavar = str(option.get("metavar", ""))
    return metavar.startswith(_FILES) or "." in metavar


def words_of(verb: str, query: Sequence[tuple[str, str]]) -> Words:
    """The words of an address, by field; empty ones are not said.

    Raises BadInput: TL231 for an unknown name with the nearest, TL270 for a word that names a file.
    """
    options = options_of(row_of(verb))
    by_name = {name: each for each in options for name in _names(each)}
    found: Words = {}
    for name, word in query:
        plain = said(name)
        if name in _OF_THE_PAGE or not word.strip():
            continue
        if plain not in by_name:
            raise unknown_option(verb, f"--{plain}", (f"--{each}" for each in by_name))
        option, field = by_name[plain], by_name[plain]["field"]
        refuse_file(option, word)
        if option.get("flag"):
            if word.lower() not in _NO:
                found[field] = True
        elif option.get("many"):
            found[field] = (*found.get(field, ()), word)
        else:
            found[field] = word
    return found


def _names(option: Row) -> Iterator[str]:
    yield said(option["field"])
    yield from (name.removeprefix("--") for name in option.get("names", ()) if name.startswith("--"))


def refuse_file(option: Row, word: str) -> None:
    """Raises BadInput (TL270) for a word that would make the server read a file or a folder of its own."""
    name = said(option["field"])
    if len(word) > _MOST:
        raise BadInput(f"{name} has {len(word):,} letters, and at most {_MOST:,} are read", code=CODE)
    if names_file(option):
        raise BadInput(f"--{name} names a file of this machine, and a page reads none; ask it on the command line",
                       code=CODE)  # fmt: skip
    if option.get("metavar") in _NAMED and any(map(_is_path, word.split(","))):
        raise BadInput(f"--{name} is a name here, not a file: a page reads no file; ask it on the command line",
                       code=CODE)  # fmt: skip


def _is_path(word: str) -> bool:
    """Whether a name could be read as a path; a name of the catalogue goes before a folder of the same name."""
    from twinlens.spec.model.reference import list_models

    name = word.strip().partition(":")[0]
    if any(letter in word for letter in "/\\\0") or name.startswith("~") or name.lower().endswith(_MODEL_FILES):
        return True
    if name in (".", "..") or len(name) > 200:
        return True
    return bool(name) and name not in list_models() and Path(name).exists()


def example_of(verb: str) -> Words:
    """The words of the verb's own example."""
    row = row_of(verb)
    by_option = {name: each for each in row["options"] for name in each.get("names", ())}
    found: Words = {}
    words = iter(shlex.split(row["example"]))
    for word in words:
        option = by_option.get(word)
        if option is not None and not names_file(option):
            found[option["field"]] = True if option.get("flag") else next(words, "")
    return found


def command_of(verb: str, words: Words) -> tuple[str, ...]:
    """The command that asks the same."""
    made: list[str] = ["twinlens", *verb.split()]
    after: list[str] = []
    for option in row_of(verb)["options"]:
        word = words.get(option["field"])
        if word is None:
            continue
        each = word if isinstance(word, tuple) else (word,)
        if option.get("argument"):
            after += map(str, each)
        elif option.get("flag"):
            made.append(_long(option))
        else:
            made += [text for one in each for text in (_long(option), str(one))]
    return (*made, *after)


def _long(option: Row) -> str:
    names: list[str] = option["names"]
    return next((name for name in names if name.startswith("--")), names[0])


def python_of(verb: str, words: Mapping[str, Any]) -> str:
    """The Python that asks the same."""
    said_words = ", ".join(f"{name}={_literal(word)}" for name, word in words.items())
    return f"import twinlens as tl\n\ntl.{verb.replace(' ', '.')}({said_words})"


def _literal(word: Any) -> str:
    if isinstance(word, tuple):
        return f"[{', '.join(map(_literal, word))}]"
    text = str(word)
    return text if word is True or (text.isascii() and text.isdecimal() and str(int(text)) == text) else repr(text)
