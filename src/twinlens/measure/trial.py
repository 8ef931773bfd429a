"""How one run of a search stands to its SLO, in the words of the search. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from twinlens.measure.search_file import TrialVerdict, Tried
from twinlens.spec.search import Search
from twinlens.spec.slo import Slo
from twinlens.stats.group import Summary
from twinlens.stats.metrics.goodput import Standing, standing
from twinlens.stats.search import Done, SearchRule, Trial, interval_words, next_rate

# Latency that was still rising, and a run too short to say: neither shows that a value can be kept up.
_NO_PASS = ("drift", "slowdown", "too short")
_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_latency_s": "latency"}


def judged(summary: Summary, slo: Slo) -> tuple[TrialVerdict, str]:
    """The verdict on a finished run, and why.

    A growing backlog fails whatever the latencies were until the run ended. What the client was too slow for says
    nothing of the server. A run that got slower as it went, or is too short to tell, cannot pass.
    """
    label, metrics = summary.verdict.label, summary.metrics
    if label == "invalid":
        return "invalid", summary.verdict.reason
    if label == "overload":
        return "fail", f"overload: {summary.verdict.reason}"
    verdict, shares = standing(metrics, slo), _shares(summary, slo)
    if verdict == "pass" and label in _NO_PASS:
        return "inconclusive", f"{label}: {summary.verdict.reason}"
    return verdict, shares


def rule_of(search: Search) -> SearchRule:
    """The rule of `stats.search` that a spec asks for."""
    least, most = search.bounds()
    start = search.rounded(search.start)
    return SearchRule(start, search.width, search.most_points, search.tries, least=least, most=most)


def next_value(tried: Sequence[Tried], search: Search) -> float | Done:
    """The next value to measure, rounded so that people can read it, or the answer."""
    rule, history = rule_of(search), _history(tried)
    ask = next_rate(history, rule)
    if isinstance(ask, Done):
        return _in_words(ask, search)
    value = search.rounded(ask)
    seen = {one.value for one in tried}
    if value in seen and ask not in seen:  # no value lies between two neighbours: they are as narrow as can be
        at_last = replace(rule, width=math.inf)
        done = next_rate(history, at_last)
        return _in_words(done, search) if isinstance(done, Done) else so_far(tried, search)
    return value


def so_far(tried: Sequence[Tried], search: Search, why: str = "") -> Done:
    """What the runs say if none follows; `why` stands in place of the reason."""
    known = _history(tried)
    if not known:
        return Done(None, None, "budget", why or "nothing was measured", 0)
    done = next_rate(known, replace(rule_of(search), most_trials=len(known)))
    assert isinstance(done, Done)
    return _in_words(replace(done, reason=why) if why else done, search)


def between(done: Done, search: Search) -> str:
    """The interval in words: "between 8 and 11.3 requests/s"."""
    return interval_words(done.low, done.high, search.unit)


def _history(tried: Sequence[Tried]) -> list[Trial]:
    """What the rule is told: a run with an invalid client says as little as one that cannot tell."""
    said: dict[TrialVerdict, Standing] = {"pass": "pass", "fail": "fail"}
    return [Trial(one.value, said.get(one.verdict, "inconclusive")) for one in tried]


def _in_words(done: Done, search: Search) -> Done:
    return replace(done, reason=done.reason.replace("requests/s", search.unit))


def _shares(summary: Summary, slo: Slo) -> str:
    """The share of requests within each limit, with its interval: what the verdict rests on."""
    said = []
    for name, limit in slo.limits().items():
        share = summary.metrics.get(f"{name}_within")
        if share is None or share.value is None:
            said.append(f"{_NAMES[name]}: not measured")
            continue
        bounds = "" if share.low is None or share.high is None else f" ({_share(share.low)} to {_share(share.high)})"
        said.append(f"{_NAMES[name]} ≤ {limit:g} s: {_share(share.value)}{bounds}")
    return f"{'; '.join(said)}; wanted {_share(slo.quantile)}"


def _share(share: float) -> str:
    return f"{100 * share:.4g}%"
