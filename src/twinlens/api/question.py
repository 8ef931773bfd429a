"""One model per verb and lens. Command line, signature, refusals, pages and schema all come from its fields."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from twinlens.errors import BadInput, unknown_option

UNREADABLE = "TL231"
F = TypeVar("F", bound=Callable[..., Any])
Reader = Callable[[str, object], Any]
"""From the name of an option and its word to a value. Raises BadInput."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a word of an option is called in help, and how it is read."""

    metavar: str
    read: Reader | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One option or argument of a verb. `names`: in place of `--field-name`; none for an argument. `head`: its part of
    the help, where the name alone does not decide."""

    words: str
    kind: Kind
    names: tuple[str, ...] = ()
    head: str = ""
    is_argument: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner, read = handler(source), self.kind.read
        if read is None:
            return inner

        def value_of(word: object, info: core_schema.ValidationInfo) -> Any:
            return read(said(info.field_name or ""), word)

        return core_schema.with_info_before_validator_function(value_of, inner)


def option(words: str, kind: Kind, *names: str, head: str = "") -> Option:
    return Option(words, kind, names, head)


def argument(words: str, metavar: str) -> Option:
    return Option(words, Kind(metavar), is_argument=True)


class Question(BaseModel):
    """What a verb is asked: frozen, each field with its `Option`. None: not said."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, coerce_numbers_to_str=True)
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
    return _plain(question.model_fields[name].annotation)


def _find(kind: Any) -> Option | None:
    if get_origin(kind) is Annotated:
        return next((each for each in get_args(kind)[1:] if isinstance(each, Option)), None)
    return next((found for each in get_args(kind) if (found := _find(each)) is not None), None)


def _plain(kind: Any) -> Any:
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return _plain(next(each for each in get_args(kind) if each is not type(None)))
    return kind


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb by its questions, one for each lens that it knows. `why`: the words of the option that tells everything,
    with its `why_names`."""

    name: str
    questions: tuple[type[Question], ...]
    example: str
    why: str = ""
    why_names: tuple[str, ...] = ("--why",)

    def fields(self) -> dict[str, tuple[type[Question], Option]]:
        """Every field of every question once, arguments first."""
        found = {
            name: (question, option_of(question, name)) for question in self.questions for name in question.model_fields
        }
        return dict(sorted(found.items(), key=lambda each: not each[1][1].is_argument))


def asks(verb: Verb) -> Callable[[F], F]:
    """Gives a function the signature of its questions, and the verb as `function.verb`."""

    def with_signature(function: F) -> F:
        own = inspect.signature(function)
        places = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=shown_type(question, name))
            for name, (question, _) in verb.fields().items()
            if name not in own.parameters
        ]
        function.__signature__ = own.replace(parameters=[*places, *named])  # type: ignore[attr-defined]
        function.verb = verb  # type: ignore[attr-defined]
        return function

    return with_signature


def shown_type(question: type[Question], name: str) -> str:
    """The type of a keyword in Python: a value or, where a word is read, its word."""
    kind, told = plain_type(question, name), option_of(question, name)
    plain = "str | Path" if kind.__name__ == "Path" else kind.__name__
    return plain if told.kind.read is None or plain in ("str", "str | Path") else f"{plain} | str"
