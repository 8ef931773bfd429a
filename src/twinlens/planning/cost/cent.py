"""Money in whole cents, so that the parts of a bill add up to it."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Context, Decimal

from twinlens.planning.cost.algebra import exact
from twinlens.planning.figure import Amount, Figure

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
