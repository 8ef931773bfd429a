"""Figures computed of figures: exact decimals, and a band that runs from the lowest to the highest of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Context, Decimal
from math import prod
from typing import Any

from twinlens.theory.figure import Amount, Figure, Input

Part = Input | Figure


def times(name: str, unit: str, *parts: Part, **more: Any) -> Figure:
    """The product of parts that are not negative."""
    return computed(name, unit, " × ".join(_places(parts)), parts, lambda *each: prod(each, start=Decimal(1)), **more)


def plus(name: str, unit: str, *parts: Part, **more: Any) -> Figure:
    """The sum of parts."""
    return computed(name, unit, " + ".join(_places(parts)), parts, lambda *each: sum(each, start=Decimal(0)), **more)


def over(name: str, unit: str, top: Part, bottom: Part, **more: Any) -> Figure:
    """A quotient: its band is lowest where the divisor is highest."""
    return computed(name, unit, "{0} / {1}", (top, bottom), lambda a, b: a / b, falls=(1,), **more)


def computed(
    name: str,
    unit: str,
    formula: str,
    parts: Sequence[Part],
    value: Callable[..., Decimal],
    *,
    falls: Sequence[int] = (),
    **more: Any,
) -> Figure:
    """A figure of `value(*parts)`; `falls`: places of parts that lower it as they grow, all others raise it.

    Absent, for the same reason, where a part is. The band is the range over all bands of the parts, which is right for
    a value that rises or falls throughout with each; its level is said where all bands have the same. An end is None
    where a part has none there, or where it would divide by 0: the band is then open to that side.
    """
    unknown = next((each for each in parts if isinstance(each, Figure) and each.value is None), None)
    if unknown is not None:
        return Figure(name, None, unit, formula, tuple(parts), reason=unknown.reason, **more)
    low = high = level = None
    banded = [each for each in parts if isinstance(each, Figure) and _is_banded(each)]
    if banded:
        low = _at([_end(each, place in falls) for place, each in enumerate(parts)], value)
        high = _at([_end(each, place not in falls) for place, each in enumerate(parts)], value)
        levels = {each.level for each in banded}
        level = levels.pop() if len(levels) == 1 else None
    middle = value(*(exact(each.value) for each in parts))
    return Figure(name, middle, unit, formula, tuple(parts), low, high, level, **more)


def exact(value: Amount | str | None) -> Decimal:
    """A number as a decimal, a float by the digits that it is written with. Raises ValueError for a word."""
    if value is None or isinstance(value, str):
        raise ValueError(f"{value!r} is no number")
    return value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)


def _is_banded(figure: Figure) -> bool:
    return figure.low is not None or figure.high is not None


def _at(ends: Sequence[Decimal | None], value: Callable[..., Decimal]) -> Decimal | None:
    if None in ends:
        return None
    try:
        return value(*ends)
    except ZeroDivisionError:  # decimal.DivisionByZero is one, too
        return None


def _end(part: Part, is_high: bool) -> Decimal | None:
    if isinstance(part, Figure) and _is_banded(part):
        end = part.high if is_high else part.low
        return None if end is None else exact(end)
    return exact(part.value)


def _places(parts: Sequence[Part]) -> list[str]:
    return [f"{{{place}}}" for place in range(len(parts))]


# Money in whole cents, so that the parts of a bill add up to it.

CENT = Decimal("0.01")
_WIDE = Context(prec=60)
"""Digits enough for any amount in cents."""


def cents(figure: Figure) -> Figure:
    """Rounded to a cent, half to even, and its band too; what is absent stays so."""
    if figure.value is None:
        return figure
    return replace(figure, value=_round(figure.value), low=_round(figure.low), high=_round(figure.high))


def _round(value: Amount | None) -> Decimal | None:
    return None if value is None else exact(value).quantize(CENT, ROUND_HALF_EVEN, _WIDE)
