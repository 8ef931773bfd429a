"""Sentences on requests: failed ones, an SLO, a server that did not keep up, a cache that cannot help."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import number, numbers, percent, subject_of
from twinlens.units import RATIO, SECONDS, show

_LOST = {"cut_off": "were cut off", "refused": "were refused", "failed": "failed"}
_ENDED, _AT_LIMIT = " tokens, finish_reason ", "finish_reason length"
_WAITS = {
    "client": "most of the wait is in the client, before anything is sent: the client is overloaded, not the server",
    "admission": "most of the wait is in the admission policy, in front of the server",
    "server": "the server does not keep up",
}


def _lost(finding: Finding) -> str:
    """ "16 of 29 requests failed: cannot connect: Connection refused", the reasons with their counts."""
    lost, requests, kinds = numbers(finding, "lost", "requests", "outcomes")
    outcome = " or ".join(_LOST[kind] for kind in _LOST if kind in kinds)
    given = finding.numbers.get("reasons") or []
    several = len(given) > 1 or sum(count for _, count in given) < lost
    why = "; ".join(f"{f'{count} × ' if several else ''}{clean(word, 120).rstrip('.')}" for word, count in given)
    if given and (others := lost - sum(count for _, count in given)) > 0:
        why += f"; {others} × other reasons"
    return f"{lost} of {requests} requests {outcome}{f': {why}' if why else ''}."


def advice_on_lost(finding: Finding) -> str:
    """Advice where most requests were lost for one known reason; "" where there is no other than the code's own.

    Answers that end by themselves are cut off: the server ignores `ignore_eos`, or a gateway does not hand it on.
    """
    reasons, lost = finding.numbers.get("reasons") or [], finding.numbers.get("lost") or 0
    ended = sum(count for words, count in reasons if _ENDED in str(words) and _AT_LIMIT not in str(words))
    if not lost or ended <= lost / 2:
        return ""
    return (
        "Let answers end by themselves: --set workload.output_tokens.kind=free; or ask a server that heeds ignore_eos."
    )


def _server_died(finding: Finding) -> str:
    last_s, after = numbers(finding, "last_answer_s", "after")
    return f"The server was gone after {show(last_s, SECONDS)}, {after} requests before the end. {_lost(finding)}"


def _slo(finding: Finding, lead: str) -> str:
    share, quantile, limit_s = (float(value) for value in numbers(finding, "share", "quantile", "limit_s"))
    low, high = finding.numbers.get("low"), finding.numbers.get("high")
    known = "" if low is None or high is None else f" (95 % interval {_ends(low, high)})"
    return (
        f"{lead}: {show(share, RATIO)} of requests keep {subject_of(finding)} ≤ {show(limit_s, SECONDS)}{known}, "
        f"but {100 * quantile:g}% must."
    )


def _slo_undecided(finding: Finding) -> str:
    more = finding.numbers.get("more")
    told = _slo(finding, "It is undecided if the SLO is met").removesuffix(".").replace(", but ", ", and ")
    return f"{told}; about {more:,} more requests decide it." if isinstance(more, int) else f"{told}."


def _not_streamed(finding: Finding) -> str:
    why = clean(number(finding, "why"), 120)
    return f"The server does not stream: {why}. TTFT is the time of a whole answer, and there is no TPOT."


def _slo_not_judged(finding: Finding) -> str:
    return f"The SLO limits {subject_of(finding)}, which cannot be judged: {clean(number(finding, 'why'), 120)}."


def _ends(low: float, high: float) -> str:
    """Two shares, each with its unit where one of them is below 1 %: "94.2–100 %", "0.942 % to 100 %"."""
    if 0 < low < 0.01:
        return f"{100 * low:.3g} % to {100 * high:.3g} %"
    return f"{100 * low:.3g}–{100 * high:.3g} %"


def _empty_slots(finding: Finding) -> str:
    share, slots, slices = numbers(finding, "share", "slots", "slices")
    return (
        f"The load came in {slices:g} slices that were drained: {percent(share)} of the time of its {slots:g} slots "
        "was empty, which an endless loop would have filled."
    )


def _overload(finding: Finding) -> str:
    first, last, due, ended, waits = numbers(finding, "in_flight_first", "in_flight_last", "due", "ended", "waits")
    return (
        f"requests in flight grow from {first:.3g} to {last:.3g}: in the window {due} were due and {ended} ended; "
        f"{_WAITS[waits]}"
    )


def _failing(finding: Finding) -> str:
    failed, requests = numbers(finding, "failed", "requests")
    return f"{failed} of {requests} requests failed or were cut short"


def _few_answers(finding: Finding) -> str:
    answered, requests, fewest = numbers(finding, "answered", "requests", "fewest")
    return f"{answered} of {requests} requests ended well; at least {fewest} are needed"


def _trace_rows_left_out(finding: Finding) -> str:
    count = number(finding, "rows")
    many = "s of the trace were" if count != 1 else " of the trace was"
    return f"{count:,} row{many} not played: without a prompt or an answer there is no request to send."


def _prefix_below_block(finding: Finding) -> str:
    tokens, block = numbers(finding, "prefix_tokens", "block_tokens")
    return (
        f"The shared prefix of {tokens} tokens is shorter than a block of the server's cache ({block} tokens). The "
        "cache reuses whole blocks only, so it never reuses this prefix, unless a chat template fills the block up."
    )


CLAUSES = {
    "overload": _overload,
    "failing": _failing,
    "few-answers": _few_answers,
    "shorter-than-stays": lambda finding: "the run is shorter than three times the latency of a request",
    "whole-run": lambda finding: "the load changes by design, so every request of the run counts",
}
SENTENCES = {
    "requests-failed": _lost,
    "mostly-failed": _lost,
    "server-died": _server_died,
    "slo-missed": lambda finding: _slo(finding, "The SLO is missed"),
    "not-streamed": _not_streamed,
    "slo-not-judged": _slo_not_judged,
    "slo-unclear": _slo_undecided,
    "empty-slots": _empty_slots,
    "trace-rows-left-out": _trace_rows_left_out,
    "prefix-below-block": _prefix_below_block,
}
