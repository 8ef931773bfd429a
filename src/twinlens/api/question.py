"""One model per verb and lens. Command line, signature, refusals, pages and schema all come from its fields."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from twinlens.errors import BadInput, unknown_option

UNREADABLE = "TL231"
F = TypeVar("F", bound=Callable[..., Any])
Reader = Callable[[str, object], Any]
"""From the name of an option and its word to a value. Raises BadInput."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a word of an option is called in help, and how it is read. `known`: all its words, where they are few."""

    metavar: str
    read: Reader | None = None
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One option or argument of a verb. `names`: in place of `--field-name`; none for an argument. `head`: its part of
    the help, where the name alone does not decide."""

    words: str
    kind: Kind
    names: tuple[str, ...] = ()
    head: str = ""
    is_argument: bool = False
    is_telling: bool = False
    """Says how an answer is told, or when to stop: of the command line, and no keyword of the Python function."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        read = self.kind.read
        if read is None:
            return handler(source)

        def value_of(word: object, info: core_schema.ValidationInfo) -> Any:
            return read(said(info.field_name or ""), word)

        return core_schema.with_info_plain_validator_function(value_of)


def option(words: str, kind: Kind, *names: str, head: str = "") -> Option:
    return Option(words, kind, names, head)


def telling(words: str, kind: Kind, *names: str) -> Option:
    """An option of the command line alone."""
    return Option(words, kind, names, is_telling=True)


def argument(words: str, metavar: str) -> Option:
    return Option(words, Kind(metavar), is_argument=True)


class Question(BaseModel):
    """What a verb is asked: frozen, each field with its `Option`. None: not said."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, coerce_numbers_to_str=True,
                              defer_build=True)  # fmt: skip
    lens: ClassVar[str] = ""
    instead: ClassVar[str] = ""
    """How to ask the other lens, for an option that is not of this one: "leave --train out"."""

    @classmethod
    def read(cls, verb: str, words: Mapping[str, Any], *others: type[Question]) -> Self:
        """The question that `words` ask, of a verb by its name on the command line; None is a word that was not said.

        Raises BadInput (TL231) for an unknown word with the nearest, for one of another lens, and for a missing one.
        """
        given = {name: word for name, word in words.items() if word is not None}
        known = {*cls.model_fields, *(name for other in others for name in other.model_fields)}
        for name in given:
            if name not in known:
                raise unknown_option(verb, f"--{said(name)}", (f"--{said(each)}" for each in known))
            if name not in cls.model_fields:
                raise BadInput(f"--{said(name)} is no option of {cls.lens}; {cls.instead}", code=UNREADABLE)
        for name, field in cls.model_fields.items():
            if field.is_required() and name not in given:
                told = option_of(cls, name)
                named = told.kind.metavar if told.is_argument else f"--{said(name)} {told.kind.metavar}"
                raise BadInput(f"{verb} needs {named}: {told.words}", code=UNREADABLE)
        for name, word in given.items():  # one of several may be said alone
            if isinstance(word, str | Path) and get_origin(plain_type(cls, name)) is tuple:
                given[name] = (word,) if option_of(cls, name).kind.read is None else word
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = said(str(first["loc"][0]))
            raise BadInput(f"--{name} {str(first['input'])[:40]!r}: {first['msg'].lower()}", code=UNREADABLE) from None


def said(name: str) -> str:
    """The name of a field as the command line says it, without its dashes."""
    return name.rstrip("_").replace("_", "-")


def option_of(question: type[Question], name: str) -> Option:
    """The option of a field."""
    field = question.model_fields[name]
    found = next((each for each in field.metadata if isinstance(each, Option)), None) or _find(field.annotation)
    assert found is not None, f"{question.__name__}.{name} has no Option"
    return found


def plain_type(question: type[Question], name: str) -> Any:
    """The type of a field without its option and without None."""
    return _members(question.model_fields[name].annotation)[0]


def _find(kind: Any) -> Option | None:
    if get_origin(kind) is Annotated:
        return next((each for each in get_args(kind)[1:] if isinstance(each, Option)), None)
    return next((found for each in get_args(kind) if (found := _find(each)) is not None), None)


def _members(kind: Any) -> list[Any]:
    """The types of a union, without options and None."""
    if get_origin(kind) is Annotated:
        return _members(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return [found for each in get_args(kind) if each is not type(None) for found in _members(each)]
    return [kind]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb by its questions, one for each lens that it knows. `run`: the function of the command line, as
    "module:name". `head`: its part of `--help`. `why`: the words of the option that tells everything, with its
    `why_names`."""

    name: str
    questions: tuple[type[Question], ...]
    example: str
    why: str = ""
    why_names: tuple[str, ...] = ("--why",)
    run: str = ""
    head: str = ""

    def fields(self) -> dict[str, tuple[type[Question], Option]]:
        """Every field of every question once, arguments first."""
        return fields_of(*self.questions)


def fields_of(*questions: type[Question]) -> dict[str, tuple[type[Question], Option]]:
    """Every field of some questions once, arguments first."""
    found = {name: (question, option_of(question, name)) for question in questions for name in question.model_fields}
    return dict(sorted(found.items(), key=lambda each: not each[1][1].is_argument))


def asks(verb: Verb, *questions: type[Question]) -> Callable[[F], F]:
    """Makes a function that takes `**words` the Python side of a verb: it gets the signature of the questions (all of
    the verb without any), refuses a keyword that there is not with the nearest, and has the verb as `function.verb`.
    """

    def with_signature(function: F) -> F:
        own = inspect.signature(function)
        places = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=shown_type(question, name))
            for name, (question, told) in fields_of(*(questions or verb.questions)).items()
            if name not in own.parameters and not (told.is_telling or told.is_argument)
        ]
        known = {each.name for each in (*places, *named) if each.kind is not inspect.Parameter.VAR_POSITIONAL}

        @wraps(function)
        def asked(*values: Any, **words: Any) -> Any:
            for name in words:
                if name not in known:
                    raise unknown_option(verb.name, f"--{said(name)}", (f"--{said(each)}" for each in known))
            return function(*values, **words)

        asked.__signature__ = own.replace(parameters=[*places, *named])  # type: ignore[attr-defined]
        asked.words = tuple(named)  # type: ignore[attr-defined]
        asked.verb = verb  # type: ignore[attr-defined]
        return cast(F, asked)

    return with_signature


def shown_type(question: type[Question], name: str) -> str:
    """The type of a keyword in Python: a value or, where a word is read, its word."""
    kinds, reads = _members(question.model_fields[name].annotation), option_of(question, name).kind.read is not None
    if get_origin(kinds[0]) is tuple and get_args(kinds[0])[0].__module__.startswith("twinlens"):
        return "str"  # several in one word
    if get_origin(kinds[0]) is tuple:
        return "str | Sequence[str]" if not reads and get_args(kinds[0])[0] is str else "str | Sequence[Any]"
    names = ["str | Path" if kind is Path else kind.__name__ for kind in kinds]
    if any(kind.__module__.startswith("twinlens") for kind in kinds):  # made of a number or a word
        names = ["float"]
    return " | ".join(names if not reads or names[0] in ("str", "str | Path", "Any") else [*names, "str"])


_JSON_TYPES = {"bool": "boolean", "int": "integer", "float": "number", "Decimal": "number", "str": "string",
               "Path": "string"}  # fmt: skip


def schema_of(verb: Verb) -> dict[str, Any]:
    """The JSON schema of what a verb may be asked, one object for each of its lenses; `title` is an option's unit."""
    lenses = [_schema_of(question) for question in verb.questions]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": verb.name}
    return head | (lenses[0] if len(lenses) == 1 else {"anyOf": lenses})


def _schema_of(question: type[Question]) -> dict[str, Any]:
    fields = {name: field for name, field in question.model_fields.items() if not option_of(question, name).is_telling}
    properties = {}
    for name, field in fields.items():
        told, kinds = option_of(question, name), shown_type(question, name).split(" | ")
        known = list(dict.fromkeys(_JSON_TYPES[kind] for kind in kinds if kind in _JSON_TYPES))
        row: dict[str, Any] = {"description": told.words, "title": told.kind.metavar} if told.kind.metavar else {
            "description": told.words}  # fmt: skip
        if get_origin(plain_type(question, name)) is tuple:
            row |= {"type": ["string", "array"], "items": {"type": "string"}}
        elif known:
            row |= {"type": known[0] if len(known) == 1 else known}
        if isinstance(field.default, str | int | float | Path) and field.default != "":
            row["default"] = str(field.default) if isinstance(field.default, Path) else field.default
        properties[name] = row
    needed = [name for name, field in fields.items() if field.is_required()]
    return {"description": inspect.getdoc(question), "type": "object", "properties": properties,
            "additionalProperties": False} | ({"required": needed} if needed else {})  # fmt: skip
