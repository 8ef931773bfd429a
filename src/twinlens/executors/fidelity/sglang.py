"""Log probabilities of a prompt as SGLang's /generate gives them. Recorded output only: its wheels need a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twinlens.executors.fidelity.scored import Scored, Unusable, place_of


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
