"""`[executor.options]`: settings that only one executor knows, checked like every other field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.executors.capabilities import Option


def refuse_unknown_options(kind: str, options: Mapping[str, Any], known: Iterable[str] = ()) -> None:
    """Raises BadInput (TL207) for an option this executor does not have: a misspelt one is never ignored."""
    names = tuple(known)
    for word in sorted(set(options) - set(names)):
        hint = nearest(word, names) if names else "it has none"
        raise BadInput(f"the {kind} executor has no option {word!r}; {hint}", code="TL207")


def refuse_outside(
    kind: str, options: Mapping[str, Any], known: Mapping[str, Option], name: str, least: float, most: float
) -> None:
    """Raises BadInput (TL207) for a number outside its range; one whose default is whole must be whole."""
    default = known[name].default
    value, whole = options.get(name, default), isinstance(default, int)
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        sort = "a whole number" if whole else "a number"
        raise BadInput(
            f"executor.options.{name} of {kind} is {sort} from {least:g} to {most:g}, not {value!r}", code="TL207"
        )


def refuse_wrong_options(kind: str, options: Mapping[str, Any], known: Mapping[str, Option]) -> None:
    """Raises BadInput (TL207) for an option this executor does not have, and for none of the values that one takes."""
    refuse_unknown_options(kind, options, known)
    for name, value in options.items():
        if (choices := known[name].choices) and value not in choices:
            words = " or ".join(f'"{choice}"' for choice in choices)
            raise BadInput(f"executor.options.{name} of {kind} is {words}, not {value!r}", code="TL207")
