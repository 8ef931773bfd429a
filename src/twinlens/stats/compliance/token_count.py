"""TEST06: whether answers have the tokens that the server claims, and begin with the token reported first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.sections import ComplianceTest, Response, Ruling
from twinlens.stats.compliance.ruling import reason_of
from twinlens.stats.estimator.interval import mean_of_independent
from twinlens.units import COUNT, RATIO

FEWEST_ANSWERS = 20  # a count that is wrong in one answer of seven shows among twenty, 95 times of 100
MOST_RECOUNT = 1.25  # text is not always cut again as it was made; a quarter more than its count is not that


@dataclass(frozen=True, slots=True)
class TokenFaults:
    """Answers under load by what is wrong with them; `answers` is all that were looked at.

    `uncounted`: no usage. `fewer_than_chunks`: a chunk with text holds a token at least. `more_than_bytes`: so does a
    token hold a byte. `over_limit`: more than asked for. `not_finished`: no reason to end. `limit_not_reached`: ended
    "for length" short of the length. `went_on`: text after the reason to end.
    """

    answers: int = 0
    uncounted: int = 0
    fewer_than_chunks: int = 0
    more_than_bytes: int = 0
    over_limit: int = 0
    not_finished: int = 0
    limit_not_reached: int = 0
    went_on: int = 0

    def plus(self, response: Response, asked_tokens: int) -> TokenFaults:
        """These and one more answer."""
        counted = response.counted_tokens
        return TokenFaults(
            self.answers + 1,
            self.uncounted + (counted is None),
            self.fewer_than_chunks + (counted is not None and counted < response.chunks),
            self.more_than_bytes + (counted is not None and _is_beyond_bytes(response, counted)),
            self.over_limit + (counted is not None and counted > asked_tokens),
            self.not_finished + (response.finish is None),
            self.limit_not_reached + (counted is not None and response.finish == "length" and counted < asked_tokens),
            self.went_on + (response.late_chunks > 0),
        )


_FAULTS = ("fewer_than_chunks", "over_limit", "limit_not_reached", "not_finished", "went_on")
"""Faults that no honest answer has. `more_than_bytes` is one only where the text holds every token that was
generated."""


def tokens(
    faults: TokenFaults,
    firsts: Sequence[tuple[Response, Response]],
    recounts: Sequence[tuple[int, int]],
    *,
    forced: bool,
) -> ComplianceTest:
    """TEST06: whether answers have the tokens they claim, and begin with the token that was reported first.

    `firsts`: an answer that was streamed and the same one in one piece. `recounts`: tokens claimed for a text, and the
    server's own count of the same text as a prompt. `forced`: end-of-sequence tokens are ignored, so the text may
    lack tokens that were generated and are not shown.
    """
    other = sum(not whole.text.startswith(streamed.first) for streamed, whole in firsts)
    inflation = _recounted(recounts)
    evidence = {name: _count(getattr(faults, name), faults.answers) for name in TokenFaults.__dataclass_fields__}
    evidence |= {"other_first_token": _count(other, len(firsts)), "claimed_per_recounted": inflation}
    looked_at = _FAULTS if forced else (*_FAULTS, "more_than_bytes")
    wrong = {name: count for name in looked_at if (count := getattr(faults, name))}
    counted = faults.answers - faults.uncounted

    def guard(ruling: Ruling, code: str, **numbers: Any) -> ComplianceTest:
        return ComplianceTest("tokens", "TEST06", ruling, reason_of(code, evidence, **numbers), evidence)

    if wrong:
        return guard("fail", "token-faults", answers=faults.answers, faults=wrong)
    if other:
        return guard("fail", "first-token-differs", other=other, answers=len(firsts))
    if inflation.low is not None and inflation.low > MOST_RECOUNT:
        return guard("fail", "tokens-inflated")
    if faults.answers and not counted:
        return guard("not applicable", "no-usage")
    if counted < FEWEST_ANSWERS:
        return guard("not enough", "few-counted", answers=counted, fewest=FEWEST_ANSWERS)
    return guard("pass", "counts-agree", answers=counted, first_tokens_compared=bool(firsts))


def _recounted(recounts: Sequence[tuple[int, int]]) -> Estimate:
    claimed = [claimed for claimed, count in recounts if count > 0]
    counts = [count for _, count in recounts if count > 0]
    if not counts:
        return Estimate.absent(RATIO, "the server did not count the texts as prompts")
    each = mean_of_independent(np.array(claimed) / np.array(counts), unit=RATIO)
    return each


def _is_beyond_bytes(response: Response, counted: int) -> bool:
    """Every token is a byte or more, but one that ends the answer, which is not shown; reasoning is not in the text."""
    unseen = 0 if response.finish == "length" else 1
    return (
        bool(response.text)
        and not response.reasoning_chunks
        and counted - unseen > len(response.text.encode("utf-8", "replace"))
    )


def _count(value: int, n: int) -> Estimate:
    return Estimate(value, COUNT, "answers", "measured", n=n)
