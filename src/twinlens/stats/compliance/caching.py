"""TEST04: whether a repeated request is answered faster than others. Theirs allows at most 10 %, and so does this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinlens.record.sections import ComplianceTest
from twinlens.stats.compliance.ruling import LEVEL, RULINGS, reason_of, told_by
from twinlens.stats.estimator.rank_ratio import rank_ratio

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
