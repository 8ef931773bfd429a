"""Sentences on the choice of a model: what is left, what beats what, and which constraint puts one out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.reporting.display import clean

if TYPE_CHECKING:
    from twinlens.planning.models.answer import Choice
    from twinlens.planning.models.candidate import Candidate
    from twinlens.record.finding import Finding

_LACKS = {
    "memory": "layers",
    "speed": "predicted speed",
    "device-rate": "the device's rate in 16 bits or fp32",
    "cost": "cost",
    "quality": "score",
    "licence": "licence",
}


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
        return _against(one.against[0])
    by = next((other for name, other in choice.beaten if name == one.name), None)
    return "" if by is None else f"beaten by {clean(by, 40)}"


def _against(finding: Finding) -> str:
    numbers = finding.numbers
    if finding.subject == "not-known":
        return f"{_LACKS[str(numbers['what'])]} not known"
    return {
        "memory": "does not fit", "tpot": "{ms:,.3g} ms a token, {limit_ms:,.3g} are allowed",
        "cost": "${cost:,.3g} a million", "quality": "score {score:g}", "licence": "licence {licence}",
        "context": "{context:,} tokens at most",
    }[finding.subject].format(**numbers)  # fmt: skip


CLAUSES = {"plan-model": _against}
