"""Values of a setting as a space names them: a list, a range by steps or by a factor, or all that ship."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from twinlens.errors import nearest

Value = bool | int | float | str
MOST_VALUES = 100
"""Of one setting: more than any budget tries."""
_SAYS = 'a list of values, { from, to, step }, { from, to, factor }, or "all"'
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def read_values(
    asked: object, ship: Sequence[Value], within: tuple[float, float] | None, also: tuple[Value, ...] = ()
) -> tuple[Value, ...]:
    """The values that are asked for, in their order. `ship`: those of "all", whose type the others must have; words
    are among them. `within`: the range of numbers. `also`: values that are allowed beside them.

    Raises ValueError with a clause that says what is wrong.
    """
    if asked == "all":
        return tuple(ship)
    if isinstance(asked, Mapping):
        asked = _range(asked, is_whole=type(ship[0]) is int)
    if not isinstance(asked, list | tuple):
        raise ValueError(f"it is {_SAYS}, not {asked!r}")
    if not asked:
        raise ValueError(f"its list of values is empty; it is {_SAYS}")
    if len(asked) > MOST_VALUES:
        raise ValueError(f"{len(asked)} values are more than {MOST_VALUES}; name fewer")
    found: list[Value] = []
    for value in asked:
        read = _read(value, ship, within, also)
        if any(same(read, each) for each in found):
            raise ValueError(f"{shown(read)} stands there twice")
        found.append(read)
    return tuple(found)


def same(one: Any, other: Any) -> bool:
    """Whether two values are one: 1 is no true, though Python calls them equal."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def shown(value: Any) -> str:
    """A value as a TOML file has it."""
    return f"{value:g}" if isinstance(value, float) else json.dumps(value, default=str)


def _read(value: object, ship: Sequence[Value], within: tuple[float, float] | None, also: tuple[Value, ...]) -> Value:
    for each in also:
        if same(value, each) and type(value) is type(each):
            return each
    kind = type(ship[0])
    if kind is float and type(value) is int:
        value = float(value)
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        raise ValueError(f"it takes {_NAMES[kind]}, not {value!r}")
    if isinstance(value, str) and value not in ship:
        raise ValueError(f"it has no value {value[:40]!r}; {nearest(value, map(str, ship))}")
    if within is not None and isinstance(value, int | float) and not within[0] <= value <= within[1]:
        raise ValueError(f"{shown(value)} is outside {within[0]:g} to {within[1]:g}")
    return value


def _range(asked: Mapping[Any, Any], *, is_whole: bool) -> list[float]:
    """The numbers from `from` to at most `to`, each the one before plus `step` or times `factor`."""
    by = [name for name in ("step", "factor") if name in asked]
    if set(asked) != {"from", "to", *by} or len(by) != 1:
        raise ValueError(f"it is {_SAYS}, not {dict(asked)!r}")
    numbers = (asked["from"], asked["to"], asked[by[0]])
    if not all(type(each) in (int, float) and math.isfinite(each) for each in numbers):
        raise ValueError(f"from, to and {by[0]} are numbers, not {numbers!r}")
    first, last, change = numbers
    if first > last or change <= (1 if by == ["factor"] else 0) or (by == ["factor"] and first <= 0):
        rule = "above 1, and from above 0" if by == ["factor"] else "above 0"
        raise ValueError(f"from is at most to, and {by[0]} is {rule}; not {dict(asked)!r}")
    if is_whole and any(type(each) is not int for each in numbers[: 2 if by == ["factor"] else 3]):
        raise ValueError(f"it takes whole numbers, not {dict(asked)!r}")
    found: list[float] = []
    for place in range(MOST_VALUES + 2):
        value = first + place * change if by == ["step"] else first * change**place
        if value > last * (1 + 1e-12):
            break
        value = round(value) if is_whole else float(value)
        if not found or value != found[-1]:
            found.append(value)
    return found
