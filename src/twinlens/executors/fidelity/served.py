"""Compare a server with its reference: by log probabilities where the server gives them, else by greedy answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twinlens.executors.fidelity.answer import Answer
from twinlens.executors.fidelity.ask import Asked, Prompt
from twinlens.executors.fidelity.distance import of_answers, of_scored
from twinlens.executors.fidelity.scored import Scored, Unusable
from twinlens.record.executor.facts import Compared, FidelityRow

Rows = tuple[FidelityRow, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """What a server is compared with. `name`: for sentences."""

    name: str
    scores: Callable[[Sequence[Prompt]], list[Scored]]
    answers: Callable[[Sequence[str], int], list[Answer]]


def served_fidelity(
    server: Asked, reference: Reference, prompts: Sequence[Prompt], texts: Sequence[str], most_tokens: int
) -> tuple[Rows, Compared]:
    """One row for each prompt, and how they were had; no rows and the reason where they could not be.

    `prompts`: for log probabilities; `texts`: for answers of at most so many tokens. The server is asked first: a
    reference takes longer.
    """
    try:
        try:
            scored, seen = True, server.scores(prompts)
            expected = reference.scores(prompts)
        except Unusable as wrong:
            scored, why_not = False, str(wrong)
        if scored:
            rows = tuple(of_scored(one, other) for one, other in zip(expected, seen, strict=True))
            return rows, Compared("log-probabilities", reference.name, _digest(prompts))
        rows = _by_answers(server, reference, texts, most_tokens)
    except Unusable as wrong:
        return (), Compared("none", reference.name, reason=str(wrong))
    return rows, Compared("answers", reference.name, _digest(texts), instead=why_not)


def _by_answers(server: Asked, reference: Reference, texts: Sequence[str], most_tokens: int) -> Rows:
    seen = server.answers(texts, most_tokens)
    expected = reference.answers(texts, most_tokens)
    for one, other in zip(expected, seen, strict=True):
        if None not in (one.prompt_tokens, other.prompt_tokens) and one.prompt_tokens != other.prompt_tokens:
            raise Unusable(
                f"the server reads a prompt as {other.prompt_tokens} tokens, and its reference as {one.prompt_tokens}"
            )
    rows = tuple(of_answers(one, other) for one, other in zip(expected, seen, strict=True))
    if not any(row.tokens for row in rows):
        raise Unusable("neither the server nor its reference answers with a token")
    return rows


def _digest(prompts: Sequence[Prompt]) -> str:
    return hashlib.sha256(repr(list(prompts)).encode()).hexdigest()[:12]
