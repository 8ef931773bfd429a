"""Log probabilities that a server gives for the tokens of a prompt, read from its JSON and held to be possible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SLACK = 0.02  # a sum of 20 probabilities that were rounded to 16 bits may exceed 1 by so much


class Unusable(Exception):
    """An answer that holds no figure to compare, in words for a reader."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One prompt as a model reads it.

    `tokens`: its token ids. `places`: for each token but the first, log probabilities by token id, of the most likely
    tokens there and of the token itself.
    """

    tokens: tuple[int, ...]
    places: tuple[Mapping[int, float], ...]


def from_prompt_logprobs(choice: Mapping[str, Any], asked: Sequence[int] | None) -> Scored:
    """A choice of vLLM with `prompt_logprobs`: a list with null for the first token, and a table for each other one.

    `asked`: the ids of the prompt; None where the prompt was text, and the ids are those of `prompt_token_ids`.
    Raises Unusable.
    """
    given = choice.get("prompt_logprobs")
    if not isinstance(given, list) or not given:
        raise Unusable("its answer has no prompt_logprobs")
    ids = choice.get("prompt_token_ids") if asked is None else asked
    if not isinstance(ids, Sequence) or not all(type(each) is int for each in ids):
        raise Unusable("its answer has no prompt_token_ids")
    if len(given) != len(ids):
        raise Unusable(f"it gives {len(given)} positions for a prompt of {len(ids)} tokens")
    return Scored(tuple(ids), tuple(place_of(table, token) for table, token in zip(given[1:], ids[1:], strict=True)))


def place_of(table: Any, token: int) -> dict[int, float]:
    """One position: log probabilities by token id, `token` among them, that can be those of one distribution.

    Raises Unusable.
    """
    if not isinstance(table, Mapping):
        raise Unusable("its answer has no log probabilities at a position of the prompt")
    place = {}
    for key, entry in table.items():
        value = entry.get("logprob") if isinstance(entry, Mapping) else entry
        if not str(key).isdecimal() or isinstance(value, bool) or not isinstance(value, int | float):
            raise Unusable("its log probabilities are not numbers by token id")
        if not math.isfinite(value) or value > _SLACK:
            raise Unusable(f"it gives a log probability of {value}, which none can be")
        place[int(key)] = float(value)
    if token not in place:
        raise Unusable("it leaves out the log probability of a token of the prompt")
    if sum(map(math.exp, place.values())) > 1 + _SLACK:
        raise Unusable("its probabilities of one position come to more than 1")
    return place


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


# Log probabilities of a prompt as SGLang's /generate gives them. Recorded output only: its wheels need a GPU.


def generate_request(prompt: str | Sequence[int], top: int) -> dict[str, Any]:
    """The body that asks /generate for log probabilities of all tokens of a prompt, and `top` others at each."""
    asked: dict[str, Any] = {"text": prompt} if isinstance(prompt, str) else {"input_ids": list(prompt)}
    return asked | {
        "sampling_params": {"temperature": 0, "max_new_tokens": 1},
        "stream": False,
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": top,
    }


def meta_info_of(said: Any) -> Mapping[str, Any] | None:
    """What SGLang says of its answer; None where the answer is not one of SGLang's."""
    meta = said.get("meta_info") if isinstance(said, Mapping) else None
    return meta if isinstance(meta, Mapping) else None


def from_input_logprobs(meta: Mapping[str, Any], asked: Sequence[int] | None) -> Scored:
    """Log probabilities in a `meta_info`: [log probability, token id, text] for each token of the prompt, and a list
    of the same for the most likely ones, which may lack the token itself. The first token has no log probability.

    `asked`: the ids of the prompt; None where the prompt was text. Raises Unusable.
    """
    tokens, tops = meta.get("input_token_logprobs"), meta.get("input_top_logprobs")
    if not isinstance(tokens, list) or not tokens or not isinstance(tops, list):
        raise Unusable("its answer has no input_token_logprobs and input_top_logprobs")
    if asked is not None and len(tokens) != len(asked):
        raise Unusable(f"it gives {len(tokens)} positions for a prompt of {len(asked)} tokens")
    if len(tops) != len(tokens):
        raise Unusable(f"it gives the most likely tokens at {len(tops)} positions for a prompt of {len(tokens)} tokens")
    first = asked[0] if tokens[0] is None and asked is not None else _pair(tokens[0])[0]
    own = [_pair(each) for each in tokens[1:]]
    ids = (first, *(token for token, _ in own))
    if asked is not None and ids != tuple(asked):
        raise Unusable("it gives log probabilities of other tokens than those of the prompt")
    places = zip(own, tops[1:], strict=True)
    return Scored(ids, tuple(place_of(_table(pair, top), pair[0]) for pair, top in places))


def _table(own: tuple[int, Any], top: Any) -> dict[str, Any]:
    if not isinstance(top, list):
        raise Unusable("its answer has no log probabilities at a position of the prompt")
    return {str(token): value for token, value in (own, *map(_pair, top))}


def _pair(entry: Any) -> tuple[int, Any]:
    """The token's id and its log probability."""
    if not isinstance(entry, list) or len(entry) < 2 or type(entry[1]) is not int:
        raise Unusable("its log probabilities are not numbers by token id")
    return entry[1], entry[0]
