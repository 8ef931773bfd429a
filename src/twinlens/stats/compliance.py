"""Compliance tests of a server: rulings after MLPerf Inference.

https://github.com/mlcommons/inference/tree/master/compliance: TEST04 (a repeated sample may be at most 10 % faster),
TEST06 (first token, one end of sequence at most, as many tokens as reported), TEST07 (accuracy while performance is
measured), TEST09 (mean output length within 10 % of the reference). Theirs read token ids inside the system under
test and know the model; ours see only what comes over HTTP, so each says what stands in for what.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

import numpy as np
import scipy

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.sections import ComplianceTest, Response, Ruling
from twinlens.stats.estimator.interval import mean_of_independent
from twinlens.stats.estimator.ratio import rank_ratio
from twinlens.units import COUNT, RATIO

FEWEST_ANSWERS = 20  # a count that is wrong in one answer of seven shows among twenty, 95 times of 100
MOST_RECOUNT = 1.25  # text is not always cut again as it was made; a quarter more than its count is not that


# TEST06: whether answers have the tokens that the server claims, and begin with the token reported first.


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


# Rulings from intervals, which all compliance tests share.

LEVEL = 0.99


def not_applicable(code: str) -> tuple[ComplianceTest, ...]:
    """All four, where none can be asked; `code`: why."""
    named = (("caching", "TEST04"), ("tokens", "TEST06"), ("answers", "TEST07"), ("length", "TEST09"))
    return tuple(ComplianceTest(id, after, "not applicable", reason_of(code)) for id, after in named)


def reason_of(code: str, evidence: Mapping[str, Estimate] | None = None, **numbers: Any) -> Finding:
    return Finding(code, "notes", "", numbers, evidence or {})


Told = Literal["pass", "fail", "open", "few"]
RULINGS: dict[Told, Ruling] = {"pass": "pass", "fail": "fail", "open": "not enough", "few": "not enough"}


def told_by(estimate: Estimate, least: float = -math.inf, most: float = math.inf) -> Told:
    """The position of an interval to its limits: within both, beyond one, open, or too few values for an interval."""
    if estimate.low is None or estimate.high is None:
        return "few"
    if estimate.high < least or estimate.low > most:
        return "fail"
    return "pass" if estimate.low >= least and estimate.high <= most else "open"


# TEST07: whether answers under load are those that the same requests get alone.


@dataclass(frozen=True, slots=True)
class Compared:
    """One answer beside another to the same request: tokens alike from the start, and whether they part after these."""

    alike_tokens: int
    parts: bool


def compared(first: Response, second: Response) -> Compared:
    """By the longest common prefix of the texts, as a share of the tokens of the first."""
    if first.text == second.text:
        return Compared(first.tokens, False)
    longest = max(len(first.text), len(second.text))
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first.text, second.text, strict=False)))
    return Compared(first.tokens * alike // longest, True)


def answers(under_load: Sequence[Compared], alone: Sequence[Compared], most_apart: float) -> ComplianceTest:
    """TEST07: whether answers under load are those that the same requests get alone.

    Batched arithmetic flips near ties, after which greedy texts part for good; so what is judged is how often they
    part, per token while they are alike: under load against alone, beside alone against alone. `most_apart`: how much
    more often they may, the share of tokens in which a lower precision may differ.
    """
    load, quiet = _parting(under_load), _parting(alone)
    whole = [_share_alike(pairs) for pairs in (under_load, alone)]
    evidence = {
        "parts_per_token_under_load": load,
        "parts_per_token_alone": quiet,
        "wholly_alike_under_load": whole[0],
        "wholly_alike_alone": whole[1],
    }
    if load.value is None or load.low is None or load.high is None or quiet.value is None or quiet.low is None:
        return ComplianceTest("answers", "TEST07", "not enough", reason_of("none-asked-again"), evidence)
    if quiet.low > most_apart:
        return ComplianceTest("answers", "TEST07", "not applicable", reason_of("differs-alone", evidence), evidence)
    limit = quiet.value + most_apart
    told = told_by(load, most=limit)
    return ComplianceTest(
        "answers", "TEST07", RULINGS[told], reason_of("texts-part", evidence, told=told, limit=limit), evidence
    )


def load_is_alone(mean_in_flight: float) -> ComplianceTest:
    """TEST07 where so few requests were under way that an answer under load was an answer alone."""
    reason = reason_of("load-is-alone", mean_in_flight=mean_in_flight)
    return ComplianceTest("answers", "TEST07", "not applicable", reason)


def _parting(pairs: Sequence[Compared]) -> Estimate:
    """Partings per token at risk, with the exact binomial interval (Clopper and Pearson 1934)."""
    parted = sum(pair.parts for pair in pairs)
    at_risk = sum(pair.alike_tokens for pair in pairs) + parted
    if not at_risk:
        return Estimate.absent(RATIO, "there are no answers to compare")
    tail = (1 - LEVEL) / 2
    low = float(scipy.special.betaincinv(parted, at_risk - parted + 1, tail)) if parted else 0.0
    high = float(scipy.special.betaincinv(parted + 1, at_risk - parted, 1 - tail)) if parted < at_risk else 1.0
    method = f"{parted} partings in {at_risk} tokens; exact binomial interval"
    return Estimate(parted / at_risk, RATIO, method, "measured", low=low, high=high, level=LEVEL, n=len(pairs))


def _share_alike(pairs: Sequence[Compared]) -> Estimate:
    if not pairs:
        return Estimate.absent(RATIO, "there are no answers to compare")
    alike = sum(not pair.parts for pair in pairs)
    return Estimate(alike / len(pairs), RATIO, "answers alike to the end", "measured", n=len(pairs))


# TEST04: whether a repeated request is answered faster than others. Theirs allows at most 10 %, and so does this.

MOST_FASTER = 0.1  # TEST04: "at most 10% faster than the standard performance run"


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """Answers asked one at a time: seconds of decoding per token, and from sending to the end. Shape: (answers,)."""

    decode_s: Sequence[float]
    whole_s: Sequence[float]


def caching(identical: AnswerTimes, distinct: AnswerTimes) -> ComplianceTest:
    """TEST04: whether the same request again and again is answered faster than others of the same lengths.

    Decided by decoding: a prefix cache rightly makes the time to the first token short, and nothing after it.
    """
    if not identical.decode_s or not distinct.decode_s:
        return ComplianceTest("caching", "TEST04", "not applicable", reason_of("no-decoding-seen"))
    decode = rank_ratio(identical.decode_s, distinct.decode_s, level=LEVEL)
    evidence = {
        "decode_time_ratio": decode,
        "whole_time_ratio": rank_ratio(identical.whole_s, distinct.whole_s, level=LEVEL),
    }
    told = told_by(decode, least=1 - MOST_FASTER)
    reason = reason_of("repeat-decode", evidence, told=told, most_faster=MOST_FASTER)
    return ComplianceTest("caching", "TEST04", RULINGS[told], reason, evidence)


# TEST09: whether answers under load are as long, on average, as they should be. The mean may be off by 10 %.

LENGTH_MARGIN = 0.1  # TEST09: the reference mean ± 10 %
FEWEST_LENGTHS = 5


def length(under_load: Sequence[int], reference: Sequence[int], source: Literal["asked", "alone"]) -> ComplianceTest:
    """TEST09: whether answers under load are as long, on average, as they should be.

    `reference`: what each was asked for, or had alone; `source` says which.
    """
    if len(under_load) != len(reference):
        raise ValueError(f"{len(under_load)} lengths under load, {len(reference)} of reference")
    mean = float(np.mean(reference)) if len(reference) else 0.0
    if len(under_load) < FEWEST_LENGTHS or mean <= 0:
        why = reason_of("few-lengths", answers=len(under_load), fewest=FEWEST_LENGTHS, reference=source)
        return ComplianceTest("length", "TEST09", "not enough", why)
    apart = mean_of_independent((np.asarray(under_load) - np.asarray(reference)) / mean, unit=RATIO)
    ratio = _shifted(apart)
    evidence = {"length_ratio": ratio, "reference_tokens": _figure(mean, f"mean, {source}", len(reference))}
    told = told_by(ratio, least=1 - LENGTH_MARGIN, most=1 + LENGTH_MARGIN)
    reason = reason_of("length-ratio", evidence, told=told, reference=source, margin=LENGTH_MARGIN)
    return ComplianceTest("length", "TEST09", RULINGS[told], reason, evidence)


def _shifted(apart: Estimate) -> Estimate:
    assert apart.value is not None
    low, high = (None if bound is None else 1 + bound for bound in (apart.low, apart.high))
    method = f"1 + {apart.method} of the differences over the mean reference"
    return Estimate(1 + apart.value, RATIO, method, "derived", low=low, high=high, level=apart.level, n=apart.n)


def _figure(value: float, method: str, n: int) -> Estimate:
    return Estimate(value, COUNT, method, "measured", n=n)
