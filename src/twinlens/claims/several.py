"""Claims of several values: ranges of sizes, and values of one kind that are paired with those of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinlens.claims.answer import Answer
from twinlens.claims.meaning import Fitted, meaning
from twinlens.claims.ruling import ruling_of
from twinlens.claims.said import UNREADABLE, Claim, Said, Token, Word, two_names, two_values
from twinlens.errors import BadInput


def conflicts_of(claim: Claim) -> dict[str, list[list[Token]]]:
    """Kinds of number or name of which a claim has several, each with its tokens by value."""
    groups: dict[str, dict[object, list[Token]]] = {}
    for said in claim.said:
        groups.setdefault(said.kind, {}).setdefault((said.low, said.high), []).append(said)
    for word in claim.words:
        if word.kind not in ("topic", "optimizer"):
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
    try:
        return [*(found if explained else ()), *_each_of(claim, conflicts)]
    except BadInput:
        if explained:
            return found
        raise


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
