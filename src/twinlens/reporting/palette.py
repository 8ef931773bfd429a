"""Colours of charts and bars, told apart with any colour blindness; apart from the charts, which are heavy."""

from __future__ import annotations

from collections.abc import Sequence

# Okabe & Ito (2008): told apart with any common colour blindness. One precision, one colour, everywhere.
PRECISION_COLOURS = {
    "fp32": "#0072B2",
    "bf16": "#E69F00",
    "fp16": "#56B4E9",
    "fp8": "#D55E00",
    "int8-dynamic": "#009E73",
    "int8-weight": "#CC79A7",
    "int4-weight": "#4D4D4D",
    "int4-dynamic": "#882255",
    "int8-static": "#117733",
    "int4-weight-gptq": "#661100",
    "int4-weight-awq": "#AA7744",
    "int8-smoothquant": "#6699CC",
    "tf32": "#F0E442",
}
_OTHER_COLOUR = "#7F7F7F"
# Parts of a whole (phases, memory) take Tol's muted scheme, so that no part looks like a precision.
PART_COLOURS = ("#332288", "#88CCEE", "#44AA99", "#999933", "#DDCC77", "#CC6677", "#AA4499")
REST_COLOUR = "#D0D0D0"


def colour(precision: str) -> str:
    """The colour of one precision; grey for one that is not known."""
    return PRECISION_COLOURS.get(precision, _OTHER_COLOUR)


def colours_of(names: Sequence[str]) -> list[str]:
    """A colour for each name: that of its precision, and for those that say more than that one of their own."""
    specific = [name for name in names if ", " in name]
    own = {name: PART_COLOURS[place % len(PART_COLOURS)] for place, name in enumerate(specific)}
    return [own.get(name, colour(name)) for name in names]


def part_colour(place: int | None) -> str:
    """A colour for each part of a whole, the same in every bar; grey for what belongs to none."""
    return REST_COLOUR if place is None else PART_COLOURS[place % len(PART_COLOURS)]
