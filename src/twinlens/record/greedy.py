"""Greedy answers of a served system to a few prompts that all points of a study share, kept whole to be compared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GreedyAnswer:
    """`text`: the content, without reasoning; `tokens`: how many it has, by the server's count."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class GreedyAnswers:
    """`prompts`: identifies the prompts and limits; answers under another one are to other questions.

    `answers`: one per prompt, in their order; None where none came.
    """

    prompts: str
    answers: tuple[GreedyAnswer | None, ...]
