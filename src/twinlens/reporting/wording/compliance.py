"""The rulings of the compliance checks in words: the reason of each pass, failure or open result."""

from __future__ import annotations

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers, span

_FAULTS = {
    "fewer_than_chunks": "claim fewer tokens than they have chunks",
    "over_limit": "claim more tokens than were asked for",
    "limit_not_reached": "say they ended for length before it was reached",
    "not_finished": "give no reason to end",
    "went_on": "go on after the reason to end",
    "more_than_bytes": "claim more tokens than their text has bytes",
}
_REFERENCES = {"asked": "what was asked for", "alone": "the same answers alone"}


def _estimate(finding: Finding, name: str) -> Estimate:
    return finding.evidence[name]


def _repeat_decode(finding: Finding) -> str:
    most = f"{number(finding, 'most_faster'):.0%}"
    sentence = (
        f"the same request again takes {span(_estimate(finding, 'decode_time_ratio'))} of the decode time of others"
    )
    return {
        "pass": sentence,
        "fail": f"{sentence}: more than {most} faster, as from a cache of answers",
        "open": f"{sentence}; it may or may not be over {most} faster",
        "few": f"{sentence}; too few answers for an interval",
    }[number(finding, "told")]


def _token_faults(finding: Finding) -> str:
    answers, faults = numbers(finding, "answers", "faults")
    return f"of {answers} answers {', '.join(f'{faults[name]} {_FAULTS[name]}' for name in _FAULTS if name in faults)}"


def _first_token_differs(finding: Finding) -> str:
    other, answers = numbers(finding, "other", "answers")
    return f"{other} of {answers} streamed answers begin differently from the same answers in one piece"


def _tokens_inflated(finding: Finding) -> str:
    ratio = span(_estimate(finding, "claimed_per_recounted"))
    return f"answers claim {ratio} times the tokens that the server itself counts in their text"


def _few_counted(finding: Finding) -> str:
    answers, fewest = numbers(finding, "answers", "fewest")
    return f"{answers} answers with a count, and {fewest} are needed"


def _counts_agree(finding: Finding) -> str:
    answers, compared = numbers(finding, "answers", "first_tokens_compared")
    agree = f"the counts of {answers} answers agree with their chunks and text"
    return agree if compared else f"{agree}; the first token could not be compared"


def _differs_alone(finding: Finding) -> str:
    alone = span(_estimate(finding, "parts_per_token_alone"))
    return f"even alone the server answers the same request differently: texts part at {alone} of the tokens"


def _texts_part(finding: Finding) -> str:
    load, alone = (span(_estimate(finding, f"parts_per_token_{name}")) for name in ("under_load", "alone"))
    limit = f"{number(finding, 'limit'):.2g}"
    sentence = f"texts under load part from those alone at {load} of the tokens, alone from alone at {alone}"
    return {
        "pass": sentence,
        "fail": f"{sentence}; at most {limit} is allowed",
        "open": f"{sentence}: too few tokens to say if that is over {limit}",
    }[number(finding, "told")]


def _few_lengths(finding: Finding) -> str:
    answers, fewest, reference = numbers(finding, "answers", "fewest", "reference")
    return f"{answers} answers can be compared with {_REFERENCES[reference]}, and {fewest} are needed"


def _length_ratio(finding: Finding) -> str:
    reference, margin = _REFERENCES[number(finding, "reference")], f"± {number(finding, 'margin'):.0%}"
    sentence = f"answers under load are {span(_estimate(finding, 'length_ratio'))} times as long as {reference}"
    return {
        "pass": sentence,
        "fail": f"{sentence}, outside {margin}",
        "open": f"{sentence}; this may or may not be within {margin}",
        "few": f"{sentence}; too few for an interval",
    }[number(finding, "told")]


def _load_is_alone(finding: Finding) -> str:
    in_flight = number(finding, "mean_in_flight")
    return f"only {in_flight:.2g} requests were in flight on average: the load is one request at a time"


CLAUSES = {
    "no-decoding-seen": lambda finding: (
        "answers of one chunk show no decoding, so a cache of answers looks like a prefix cache"
    ),
    "repeat-decode": _repeat_decode,
    "token-faults": _token_faults,
    "first-token-differs": _first_token_differs,
    "tokens-inflated": _tokens_inflated,
    "no-usage": lambda finding: "the server counts no tokens (no usage)",
    "few-counted": _few_counted,
    "counts-agree": _counts_agree,
    "none-asked-again": lambda finding: "no request of the load could be sent again alone",
    "differs-alone": _differs_alone,
    "texts-part": _texts_part,
    "few-lengths": _few_lengths,
    "length-ratio": _length_ratio,
    "load-is-alone": _load_is_alone,
    "one-answer-no-tokens": lambda finding: (
        "guards compare tokens, and these answers have none; the client checks each answer itself"
    ),
    "not-over-http": lambda finding: "guards need a server over HTTP; this executor's answers cannot be sampled",
    "no-answer-heard": lambda finding: (
        "no answer was sampled under load: none came, or other client processes took them"
    ),
}
