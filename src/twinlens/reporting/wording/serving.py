"""Sentences on serving: requests and their SLO, server, client, compliance tests and searches."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import LIMITS, named_by, number, numbers
from twinlens.units import RATIO, SECONDS, show

_LOST = {"cut_off": "were cut off", "refused": "were refused", "failed": "failed"}


_ENDED, _AT_LIMIT = " tokens, finish_reason ", "finish_reason length"


def lost(finding: Finding) -> str:
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


def kept(finding: Finding) -> str:
    """ "82.1% of requests keep TTFT ≤ 500 ms (95 % interval 79.2–84.8 %)"."""
    share, limit_s = (float(value) for value in numbers(finding, "share", "limit_s"))
    low, high = finding.numbers.get("low"), finding.numbers.get("high")
    known = "" if low is None or high is None else f" (95 % interval {_ends(low, high)})"
    return f"{show(share, RATIO)} of requests keep {named_by(finding)} ≤ {show(limit_s, SECONDS)}{known}"


_WAITS = {
    "client": "most of the wait is in the client, before anything is sent: the client is overloaded, not the server",
    "admission": "most of the wait is in the admission policy, in front of the server",
    "server": "the server does not keep up",
}


def waits(finding: Finding) -> str:
    return _WAITS[number(finding, "waits")]


def _ends(low: float, high: float) -> str:
    """Two shares, each with its unit where one of them is below 1 %: "94.2–100 %", "0.942 % to 100 %"."""
    if 0 < low < 0.01:
        return f"{100 * low:.3g} % to {100 * high:.3g} %"
    return f"{100 * low:.3g}–{100 * high:.3g} %"


def client_stood_still(finding: Finding) -> str:
    sent_s, read_s = (float(finding.numbers.get(name) or 0.0) for name in ("sent_late_s", "read_late_s"))
    late = "a request was sent" if sent_s >= read_s else "an answer was read"
    most = number(finding, "most_s")
    return f"The client stopped for a while: {late} {show(max(sent_s, read_s), SECONDS)} late, more than {most:g} s."


def first_tokens_disagree(finding: Finding) -> str:
    server_s, client_s, most_s = numbers(finding, "server_s", "client_s", "most_s")
    means = f"mean TTFT {show(server_s, SECONDS)} at the server, {show(client_s, SECONDS)} from send at the client"
    if client_s > server_s:
        return (
            f"Server and client disagree: {means}; the difference is {show(client_s - server_s, SECONDS)}, and up to "
            f"{show(most_s, SECONDS)} is expected. Requests wait in the network, or before the engine takes them."
        )
    return (
        f"Server and client disagree: {means}; the server's time cannot be the longer one, so the two measure "
        "different things, or another client uses this server too."
    )


def server_restarted(finding: Finding) -> str:
    moments = ", ".join(f"{moment:.1f} s" for moment in number(finding, "seen_s"))
    return f"The server restarted during the run (its counters fell; seen at {moments})."


_FAULTS = {
    "fewer_than_chunks": "claim fewer tokens than they have chunks",
    "over_limit": "claim more tokens than were asked for",
    "limit_not_reached": "say they ended for length before it was reached",
    "not_finished": "give no reason to end",
    "went_on": "go on after the reason to end",
    "more_than_bytes": "claim more tokens than their text has bytes",
}


_REFERENCES = {"asked": "what was asked for", "alone": "the same answers alone"}


def token_faults(finding: Finding) -> str:
    answers, faults = numbers(finding, "answers", "faults")
    return f"of {answers} answers {', '.join(f'{faults[name]} {_FAULTS[name]}' for name in _FAULTS if name in faults)}"


def reference(finding: Finding) -> str:
    return _REFERENCES[number(finding, "reference")]


def between(finding: Finding) -> str:
    """ "between 8 and 11.3 requests/s"."""
    low, high, unit = finding.numbers.get("low"), finding.numbers.get("high"), number(finding, "unit")
    if low is not None and high is not None:
        return f"between {low:.4g} and {high:.4g} {unit}"
    if low is not None:
        return f"at least {low:.4g} {unit}"
    return "not known yet" if high is None else f"below {high:.4g} {unit}"


def _share_words(share: float) -> str:
    return f"{100 * share:.4g}%"


def _limit_words(limit: dict[str, float | str | None]) -> str:
    share, low, high = (limit[name] for name in ("share", "low", "high"))
    if not isinstance(share, int | float):
        return f"{LIMITS[str(limit['limit'])]}: not measured"
    known = isinstance(low, int | float) and isinstance(high, int | float)
    bounds = f" ({_share_words(low)} to {_share_words(high)})" if known else ""  # type: ignore[arg-type]
    return f"{LIMITS[str(limit['limit'])]} ≤ {limit['limit_s']:g} s: {_share_words(share)}{bounds}"


def slo_shares(finding: Finding) -> str:
    """The share of requests within each limit, with its interval: what the verdict rests on."""
    limits, quantile, runs = numbers(finding, "limits", "quantile", "runs")
    several = f" in {runs} runs" if runs > 1 else ""
    return f"{'; '.join(map(_limit_words, limits))}; wanted {_share_words(quantile)}{several}"


_RESULTS = {
    "embed": ("one vector", "vectors"),
    "rerank": ("one finite score", "finite scores"),
    "classify": ("a row of class scores", "rows of class scores"),
}


def one_answer(finding: Finding) -> str:
    task, items = numbers(finding, "task", "items")
    one, many = _RESULTS[str(task)]
    width = f" of {finding.numbers['width']:,} finite numbers" if "width" in finding.numbers else ""
    results = f"{one}{width}" if items == 1 else f"{items:,} {many}{' each' if width else ''}{width}"
    sent = f" Images are sent as {finding.numbers['sent']}." if "sent" in finding.numbers else ""
    return f"Each answer comes in one piece, so it has no TTFT and no TPOT; it counts only if it holds {results}.{sent}"
