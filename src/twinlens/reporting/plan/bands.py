"""Bars of an answer's main figures, each with its band, for a page: what else stands in its table."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.reporting.document.block import Bar, Bars
from twinlens.reporting.wording.amount import amount, span
from twinlens.theory.figure import Figure

_APART = "Each from 0 at a scale of its own; the line is its band."
_ALIKE = "All from 0 at one scale; the line is the band."


def bands(title: str, figures: Iterable[tuple[str, Figure]], *, apart: bool = False) -> Bars:
    """Bars of the figures that are known, by their names; no bars where none of them has a band.

    `apart`: of different quantities, each at a scale of its own.
    """
    known = [(name, figure) for name, figure in figures if figure.value is not None]
    if all(figure.low is None or figure.high is None for _, figure in known):
        known = []
    bars = tuple(Bar(name, figure, amount(float(figure.value or 0), figure.unit), beside=_ends(figure))
                 for name, figure in known)  # fmt: skip
    return Bars(bars, title, _APART if apart else _ALIKE, is_apart=apart)


def _ends(figure: Figure) -> str:
    """Both ends in words, "" where one is not known."""
    if figure.low is None or figure.high is None:
        return ""
    return span(float(figure.low), float(figure.high), figure.unit)
