"""A greedy answer as text, with the places at which its tokens end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.executors.fidelity.scored import Unusable

_HALF = "\ufffd"  # a character of which a token holds the first half


@dataclass(frozen=True, slots=True)
class Answer:
    """`text`: without blanks before it, which servers keep or drop. `ends`: for each token the characters up to its
    end. `cut`: whether the limit ended the answer, and not the model. `prompt_tokens`: as its server counts them."""

    text: str
    ends: tuple[int, ...]
    cut: bool
    prompt_tokens: int | None = None


def from_pieces(beginnings: Sequence[str], *, cut: bool, prompt_tokens: int) -> Answer:
    """The answer of a model here. `beginnings`: its text up to each token."""
    texts = [each.lstrip() for each in beginnings]
    ends = tuple(len(text.rstrip(_HALF)) for text in texts)
    return Answer(texts[-1].rstrip(_HALF) if texts else "", ends, cut, prompt_tokens)


def from_completion(said: Mapping[str, Any], most_tokens: int) -> Answer:
    """The answer of a server to /v1/completions. Raises Unusable.

    Its tokens are taken to be of equal length: no server is bound to say where they end.
    """
    choice, usage = choice_of(said), said.get("usage")
    text = choice.get("text")
    if not isinstance(text, str):
        raise Unusable("its answer has no text")
    counts = usage if isinstance(usage, Mapping) else {}
    tokens, prompt = counts.get("completion_tokens"), counts.get("prompt_tokens")
    if type(tokens) is not int or not 0 <= tokens <= most_tokens:
        raise Unusable(f"it does not count the tokens of its answer, or more than the {most_tokens} asked for")
    text = text.lstrip().rstrip(_HALF)
    ends = tuple(len(text) * place // tokens for place in range(1, tokens + 1))
    return Answer(text, ends, tokens == most_tokens, prompt if type(prompt) is int else None)


def choice_of(said: Any) -> Mapping[str, Any]:
    """The first choice of an answer. Raises Unusable."""
    choices = said.get("choices") if isinstance(said, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise Unusable("its answer has no choices")
    chosen: Mapping[str, Any] = choices[0]
    return chosen
