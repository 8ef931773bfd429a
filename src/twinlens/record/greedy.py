"""Greedy answers of a served system to a few prompts that all points of a study share, kept whole to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


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

    def to_json(self) -> dict[str, Any]:
        """A plain mapping."""
        plain = [{"text": each.text, "tokens": each.tokens} if each else None for each in self.answers]
        return {"prompts": self.prompts, "answers": plain}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(data["prompts"], tuple(GreedyAnswer(**each) if each else None for each in data["answers"]))
