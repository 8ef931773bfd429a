"""Sentences on the choice of a model: what is left, what beats what, and which constraint puts one out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.reporting.display import clean
from twinlens.reporting.wording.finding import clause_of

if TYPE_CHECKING:
    from twinlens.planning.models import Candidate, Choice


def head_words(choice: Choice) -> str:
    """The answer in one sentence."""
    where, names = f"{choice.devices} × {choice.device.name}", [clean(name, 60) for name in choice.best]
    if not names:
        return f"No model is left on {where}: each breaks a constraint."
    if len(names) == 1:
        return f"{names[0]} on {where}: of what keeps the constraints nothing is better on any axis."
    return f"{len(names)} models are left on {where}, each better than the others on some axis: {', '.join(names)}."


def remark_words(one: Candidate, choice: Choice) -> str:
    """Why it is out, or what beats it."""
    if one.against:
        return clause_of(one.against[0])
    by = next((other for name, other in choice.beaten if name == one.name), None)
    return "" if by is None else f"beaten by {clean(by, 40)}"
