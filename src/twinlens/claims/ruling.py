"""The ruling on one answer: where the claimed figure lies beside the computed ones."""

from __future__ import annotations

from dataclasses import replace

from twinlens.claims.answer import Answer, Bound, Case, Ruling, values
from twinlens.claims.meaning import Fitted
from twinlens.claims.said import Said

_DECIDE = ("model", "uses-per-user", "users", "phase")
_APART = ("of-all", "of-each", "one-way", "both-ways", "bus-bandwidth", "algorithm-bandwidth", "driver")
"""Readings between which nothing lies: a figure is of one device or of all."""
_BINARY = {"K": 1.024, "M": 1.024**2, "G": 1.024**3, "T": 1.024**4}


def ruling_of(fitted: Fitted) -> tuple[Ruling, Case, bool]:
    """The ruling, the reading that it rests on, and whether GB had to be read as GiB."""
    answer, spans = fitted.answer, fitted.spans
    assert isinstance(answer, Answer)
    said = answer.claimed
    assert said is not None
    if answer.refuted is not None:  # the least time of what does not fit is still its least time
        return "incomplete" if answer.is_limit and said.side else "wrong", answer.cases[0], False
    bound: Bound = "same" if answer.is_limit else answer.bound
    fitting = [case for case, span in zip(answer.cases, spans, strict=True) if _right(said, span, bound)]
    named = any(each.subject in _DECIDE and each.numbers.get("decides", True) for each in answer.assumed)

    def far(case: Case) -> float:
        return abs(case.value - said.value)

    nearest = min(fitting or answer.cases, key=far)
    if fitting and answer.is_open:
        return "incomplete", fitting[0], False
    if fitting:
        is_sure = len(fitting) == len(answer.cases) and not named
        return "holds" if is_sure else "holds under an assumption", nearest, False
    low, high = values((*answer.cases, *answer.also))
    many = len(answer.cases) + len(answer.also)
    is_range = not any(case.assumed in _APART for case in answer.cases)
    if bound == "same" and not said.side and many > 1 and is_range and low <= said.range[1] and said.range[0] <= high:
        return "holds under an assumption", min((*answer.cases, *answer.also), key=far), False
    size = next((size for size in _BINARY if f"{size.lower()}b" in said.text.lower().replace(" ", "")), None)
    if answer.unit in ("bytes", "bytes/token") and size and "iB" not in said.text and bound == "same":
        times = _BINARY[size]
        binary = replace(said, low=(said.low or 0) * times, high=(said.high or 0) * times)
        as_gib = [case for case, span in zip(answer.cases, spans, strict=True) if _right(binary, span, "same")]
        if as_gib:
            return "holds under an assumption", as_gib[0], True
    return "incomplete" if answer.is_open else "wrong", answer.cases[0], False


def _right(said: Said, span: tuple[float, float], bound: Bound) -> bool:
    low, high = said.range
    least, most = span
    if bound == "at-most":  # the claim is at most what was computed
        return low <= most
    if bound == "at-least":
        return high >= least
    if said.side == "most":
        return least <= high
    if said.side == "least":
        return most >= low
    return low <= most and least <= high
