"""TEST07: whether answers under load are those that the same requests get alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from scipy.special import betaincinv

from twinlens.record.estimate import Estimate
from twinlens.record.sections import ComplianceTest, Response
from twinlens.stats.compliance.ruling import LEVEL, RULINGS, reason_of, told_by
from twinlens.units import RATIO


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
    low = float(betaincinv(parted, at_risk - parted + 1, tail)) if parted else 0.0
    high = float(betaincinv(parted + 1, at_risk - parted, 1 - tail)) if parted < at_risk else 1.0
    method = f"{parted} partings in {at_risk} tokens; exact binomial interval"
    return Estimate(parted / at_risk, RATIO, method, "measured", low=low, high=high, level=LEVEL, n=len(pairs))


def _share_alike(pairs: Sequence[Compared]) -> Estimate:
    if not pairs:
        return Estimate.absent(RATIO, "there are no answers to compare")
    alike = sum(not pair.parts for pair in pairs)
    return Estimate(alike / len(pairs), RATIO, "answers alike to the end", "measured", n=len(pairs))
