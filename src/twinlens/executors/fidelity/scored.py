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
