"""Looks at a run while it goes on, under load or by turns: when, how sure each must be, and what is undecided. Pure.

A run that is looked at K times and ends when its answer is decided must not be wrong more frequently for that. Each
look asks its intervals at 1 - 0.05 / K, so that all K hold together in 95 % of runs whichever of them ended it
(Bonferroni: alpha spent evenly, as nobody knows how looks at one growing run depend on each other).
"""

from __future__ import annotations

from collections.abc import Mapping

from twinlens.record.estimate import Estimate
from twinlens.spec.protocol import Protocol
from twinlens.spec.slo import Slo
from twinlens.stats.serving.goodput import slo_standing
from twinlens.stats.serving.window import Window

_GROWS = 1.5
_DOUBT = 0.05
QUANTILE = "ttft_s_p90"
"""Of a run without an SLO this is to be known; of answers without tokens the whole latency."""
_WITHOUT_TOKENS = "e2e_latency_s_p90"
_HOPELESS = ("overload", "failing")


def looks_s(protocol: Protocol) -> tuple[float, ...]:
    """The times of the looks, seconds from the start, rising: `duration_s`, then half as much again, up to `most_s`."""
    times = [protocol.duration_s]
    while times[-1] < protocol.most_s:
        times.append(min(protocol.most_s, times[-1] * _GROWS))
    return tuple(times)


def level_of(protocol: Protocol) -> float:
    """The level of the intervals of each look: 0.95 where there is one."""
    return 1 - _DOUBT / len(looks_s(protocol))


def undecided(metrics: Mapping[str, Estimate], window: Window | None, slo: Slo | None, protocol: Protocol) -> str:
    """What a run that has these metrics does not say yet; "" where its SLO is decided or, without one, p90 TTFT is
    known within `protocol.width`, or where a longer run cannot help (a growing queue, mostly failures)."""
    if window is None:
        return "no request has ended"
    if window.label in _HOPELESS:
        return ""
    if slo is not None:
        ruling = slo_standing(metrics, slo, level_of(protocol))
        share = f"{100 * slo.quantile:.4g} %"
        return f"whether {share} of the requests are within the SLO" if ruling == "inconclusive" else ""
    name = QUANTILE if QUANTILE in metrics else _WITHOUT_TOKENS
    known, called = metrics.get(name), "p90 TTFT" if name == QUANTILE else "p90 latency"
    if known is None or not known.value or known.low is None or known.high is None:
        return f"{called} (no interval yet)"
    width = max(known.high - known.value, known.value - known.low) / known.value
    return "" if width <= protocol.width else f"{called} (known within {width:.0%}, {protocol.width:.0%} asked)"
