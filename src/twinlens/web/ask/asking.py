"""A verb asked from an address: its words read, its function called, its answer or its refusal beside the form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from twinlens.api.question import Question, Verb
from twinlens.claims.names import KV_BYTES, USUAL
from twinlens.errors import BadInput, TwinlensError
from twinlens.planning.prediction.band import shipped
from twinlens.spec.catalogue import catalogue_of
from twinlens.spec.model.reference import list_models
from twinlens.system.home_folder import catalogue_folder
from twinlens.system.processes import one_blas_thread
from twinlens.theory.weight_format import WEIGHT_FORMATS
from twinlens.web.ask.found import folder_of
from twinlens.web.ask.words import CODE, RUN, Words, command_of, example_of, options_of, python_of, row_of, words_of
from twinlens.web.runs.index import Index

_LATER = ("fit", "capacity", "choose", "cost", "roi")
"""Verbs of planning whose modules are loaded ahead: those with sliders."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of it: `found` is the verb's result, else `wrong` is the sentence, with its `code`."""

    name: str
    verb: Verb
    words: Words
    found: Any = None
    wrong: str = ""
    code: str = ""
    command: tuple[str, ...] = ()
    python: str = ""
    is_example: bool = False


def ask(index: Index, name: str, query: Sequence[tuple[str, str]], *, this: Path | None = None) -> Asked:
    """Ask a verb of planning by its name; without words its own example. `this`: the probe of this machine.

    Never raises for wrong words: `wrong` says them. Raises BadInput (TL204) for a verb that there is not.
    """
    row_of(name)
    verb = verb_of(name)
    words: Words = dict(query)  # as they were said, for the form, where they cannot be read
    try:
        asked = words_of(name, query)
        words = asked or example_of(name)
        if not asked and not any(_is_whole(each, words) for each in verb.questions):
            return Asked(name, verb, words)  # nothing is asked yet, and no example has what only the user has
        given = _resolved(index, name, words, this)
        found = called(name, given)
        told = {key: word for key, word in given.items() if key != "probe"}
        return Asked(name, verb, words, found, "", "", command_of(name, told), python_of(name, told), not asked)
    except TwinlensError as refused:
        return Asked(name, verb, words, None, str(refused), refused.code)


def _is_whole(question: type[Question], words: Words) -> bool:
    return all(name in words for name, each in question.model_fields.items() if each.is_required())


def verb_of(name: str) -> Verb:
    """The questions of a verb of planning; its module is loaded with one BLAS thread, as the command line does."""
    with one_blas_thread():
        module = import_module(f"twinlens.api.plan.{name.partition(' ')[2]}")
    found: Verb = module.VERB
    return found


def called(name: str, words: Words) -> Any:
    """The result of the verb's function."""
    short = name.partition(" ")[2]
    function = getattr(import_module(f"twinlens.api.plan.{short}"), short)
    runs = words.get("runs", ())
    return function(*runs, **{key: word for key, word in words.items() if key != "runs"})


def _resolved(index: Index, name: str, words: Words, this: Path | None) -> Words:
    """The words with the folders of runs in place of their ids, and the probe of this machine in place of "this"."""
    made = dict(words)
    for option in options_of(row_of(name)):
        word = made.get(option["field"])
        if option.get("metavar") == RUN and word is not None:
            ids = word if isinstance(word, tuple) else (word,)
            folders = tuple(folder_of(index, str(each)) for each in ids)
            made[option["field"]] = folders if option.get("many") else folders[0]
    if made.get("device") == "this":
        if this is None:
            raise BadInput("this machine was not probed yet: /plan has the button for it", code=CODE)
        made["probe"] = this
    return made


def load_ahead() -> None:
    """Load what answers and draws plans, so that the first one is quick; for a thread of its own."""
    for each in _LATER:
        verb_of(f"plan {each}")
    known_names()
    import_module("twinlens.web.ask.plan")
    import_module("twinlens.reporting.plan.fit")
    import_module("twinlens.reporting.plan.curve")


# Names that forms offer, from the lists that refuse wrong ones.


def known_names(*, is_probed: bool = False) -> dict[str, tuple[str, ...]]:
    """Each list by its name. `is_probed`: this machine is a device, too."""
    devices = tuple(each.name for each in catalogue_of(catalogue_folder(None)).devices)
    return {
        "models": (*(f"{size / 1e9:g}B" for size in USUAL), *list_models()),
        "devices": (*(("this",) if is_probed else ()), *devices),
        "precisions": tuple(WEIGHT_FORMATS),
        "caches": tuple(KV_BYTES),
        "engines": _engines(),
    }


def _engines() -> tuple[str, ...]:
    """Engines whose constants are known, of serving and of training."""
    return tuple(sorted({name for each in shipped().values() for name in each.seen["engine"]}))
