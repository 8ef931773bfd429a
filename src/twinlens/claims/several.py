"""Claims of several values: ranges of sizes, and values of one kind that are paired with those of another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from twinlens.claims.meaning import Fitted, meaning
from twinlens.claims.said import (
    UNREADABLE,
    Answer,
    Bound,
    Claim,
    Gap,
    Ruling,
    Said,
    Token,
    Word,
    distinct,
    is_again,
    two_names,
    two_values,
    values,
)
from twinlens.errors import BadInput
from twinlens.theory.figure import Figure


def conflicts_of(claim: Claim) -> dict[str, list[list[Token]]]:
    """Kinds of number or name of which a claim has several, each with its tokens by value."""
    groups: dict[str, dict[object, list[Token]]] = {}
    for said in (each for each in claim.said if each.kind != "bare"):
        first = next(each for each in distinct(claim.all(said.kind)) if is_again(said, each))
        groups.setdefault(said.kind, {}).setdefault((first.low, first.high), []).append(said)
    for word in claim.words:
        if word.kind not in ("topic", "optimizer", "unread"):
            groups.setdefault(word.kind, {}).setdefault(word.name, []).append(word)
    return {kind: list(values.values()) for kind, values in groups.items() if len(values) > 1}


def ends_of(claim: Claim) -> tuple[Claim, ...]:
    """A claim on a range of sizes ("7B-34B") as one on each end; () where there is none."""
    wide = next((each for each in claim.said if each.kind == "params" and each.low and each.high != each.low), None)
    if wide is None:
        return ()
    ends = (replace(wide, low=wide.low, high=wide.low), replace(wide, low=wide.high, high=wide.high))
    return tuple(replace(claim, said=tuple(end if each == wide else each for each in claim.said)) for end in ends)


def with_each(
    claim: Claim, conflicts: dict[str, list[list[Token]]], found: list[Fitted], left: Sequence[Token]
) -> list[Fitted]:
    """The same answers, and those on each of several values, where these can be told apart.

    Raises BadInput where nothing explains the several values.
    """
    explained = all(
        token not in left for groups in conflicts.values() for group in groups for token in group
    ) and any(isinstance(each.answer, Answer) for each in found)  # fmt: skip
    pers = {each.per for groups in conflicts.values() for group in groups for each in group if isinstance(each, Said)}
    if not explained and (len(conflicts) > 1 or len(pers) > 1) and (parts := _by_clause(claim, conflicts)):
        return parts
    try:
        return [*(found if explained else ()), *_each_of(claim, conflicts)]
    except BadInput:
        if explained:
            return found
        raise


_BREAK = re.compile(r"[;,.:(]|\b(?:and|but|so|while|whereas|vs|versus|then)\b")


def _by_clause(claim: Claim, conflicts: dict[str, list[list[Token]]]) -> list[Fitted]:
    """The answers to two clauses of a sentence, where each uses all that it says; () where no cut makes it so.

    What the whole sentence says only once is said of both; of several values a clause has its own.
    """
    several = {token for groups in conflicts.values() for group in groups for token in group}
    tokens: list[Token] = sorted((*claim.said, *claim.words), key=lambda each: each.at)
    for before, after in pairwise(tokens):
        if not _BREAK.search(claim.text[before.at + len(before.text) : after.at]):
            continue
        found: list[Fitted] = []
        figures: list[set[str]] = []
        for is_first in (True, False):
            own = {each for each in several if (each.at < after.at) == is_first}
            part = replace(
                claim, said=tuple(each for each in claim.said if each not in several or each in own),
                words=tuple(each for each in claim.words if each not in several or each in own),
            )  # fmt: skip
            answers = () if conflicts_of(part) or not own else meaning(part)[0]
            used: set[Token] = set().union(*(each.used for each in answers))
            if not answers or any(isinstance(each.answer, Gap) for each in answers) or own - used:
                break
            found += answers
            figures.append({each.answer.quantity for each in answers})
        else:
            if figures[0] == figures[1]:
                return found
    return []


def _each_of(claim: Claim, conflicts: dict[str, list[list[Token]]]) -> list[Fitted]:
    """A claim of several values as one claim for each, paired in their order: "26 GB in FP16 and 13 GB in INT8".

    Raises BadInput where they do not pair, and where one kind alone has several values that are not all right.
    """
    counts = {len(values) for values in conflicts.values()}
    first = next(iter(conflicts.values()))
    values = tuple(each[0] for each in first)
    said = tuple(each for each in values if isinstance(each, Said))
    text = two_values(said) if said else two_names(tuple(each.name for each in values if isinstance(each, Word)))
    if len(counts) > 1:
        raise BadInput(text, code=UNREADABLE)
    found: list[Fitted] = []
    for place in range(counts.pop()):
        others = {
            each for groups in conflicts.values() for at, group in enumerate(groups) if at != place for each in group
        }
        part = replace(
            claim, said=tuple(each for each in claim.said if each not in others),
            words=tuple(each for each in claim.words if each not in others),
        )  # fmt: skip
        answers, _ = meaning(part)
        holds = bool(answers) and all(
            isinstance(each.answer, Answer) and ruling_of(each)[0].startswith("holds") for each in answers
        )
        if not answers or (len(conflicts) == 1 and not holds):
            raise BadInput(text, code=UNREADABLE)
        found += answers
    return found


# The ruling on one answer: where the claimed figure lies beside the computed ones.

_DECIDE = ("model", "uses-per-user", "users", "phase")
_APART = ("of-all", "of-each", "one-way", "both-ways", "bus-bandwidth", "algorithm-bandwidth", "driver")
"""Readings between which nothing lies: a figure is of one device or of all."""
_BINARY = {"K": 1.024, "M": 1.024**2, "G": 1.024**3, "T": 1.024**4}


def ruling_of(fitted: Fitted) -> tuple[Ruling, Figure, bool]:
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

    def far(case: Figure) -> float:
        return abs(case.number - said.value)

    nearest = min(fitting or answer.cases, key=far)
    if fitting and answer.is_open:
        return "incomplete", fitting[0], False
    if fitting:
        is_sure = len(fitting) == len(answer.cases) and not named
        return "holds" if is_sure else "holds under an assumption", nearest, False
    low, high = values((*answer.cases, *answer.also))
    many = len(answer.cases) + len(answer.also)
    is_range = not any(case.reading in _APART for case in answer.cases)
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
