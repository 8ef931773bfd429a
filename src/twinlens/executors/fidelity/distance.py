"""Distance of what a server said from its reference: counts and sums of one prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import takewhile

from twinlens.executors.fidelity.answer import Answer
from twinlens.executors.fidelity.scored import Scored, Unusable
from twinlens.record.executor.facts import FidelityRow

_LEAST = 1e-9


def of_scored(reference: Scored, seen: Scored) -> FidelityRow:
    """The row of one prompt that both read. Raises Unusable where the two read other tokens."""
    if reference.tokens != seen.tokens:
        raise Unusable("the server and its reference cut a prompt into other tokens")
    pairs = list(zip(reference.places, seen.places, strict=True))
    tokens = reference.tokens[1:]
    return FidelityRow(
        tokens=len(pairs),
        agreed=sum(_first(one) == _first(other) for one, other in pairs),
        kl_nats=None,
        nll_nats=-sum(place[token] for place, token in zip(seen.places, tokens, strict=True)),
        reference_nll_nats=-sum(place[token] for place, token in zip(reference.places, tokens, strict=True)),
        kl_top_nats=sum(_kl(one, other) for one, other in pairs),
    )


def of_answers(reference: Answer, seen: Answer) -> FidelityRow:
    """The row of one prompt that both answered: tokens up to the first difference, and that one where they part.

    What follows it answers another text. Where the limit cut either, nothing is known of what it would have said.
    """
    alike = _common(reference.text, seen.text)
    agreed = sum(1 for _ in takewhile(lambda end: end <= alike, reference.ends))
    if agreed == len(reference.ends):
        parts = not reference.cut and len(seen.text) > alike
    else:
        parts = not (seen.cut and len(seen.text) == alike)
    return FidelityRow(agreed + parts, agreed, None, 0.0, 0.0)


def _first(place: Mapping[int, float]) -> int:
    """The most likely token; of several as likely the one with the lowest id, as torch takes it."""
    return min(place, key=lambda token: (-place[token], token))


def _kl(reference: Mapping[int, float], seen: Mapping[int, float]) -> float:
    """KL(reference ‖ seen) over the tokens that both name, and all others as one: never above that over all tokens
    (the data processing inequality; Cover and Thomas 2006, theorem 2.8.1)."""
    shared = reference.keys() & seen.keys()
    divergence = sum(math.exp(reference[token]) * (reference[token] - seen[token]) for token in shared)
    rest, seen_rest = (max(0.0, 1 - sum(math.exp(each[token]) for token in shared)) for each in (reference, seen))
    if rest > _LEAST:
        divergence += rest * math.log(rest / max(seen_rest, _LEAST))
    return max(0.0, divergence)


def _common(first: str, second: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
