"""Parts that all sentences share: the numbers of a finding, and the names of its subjects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.units import digits

LIMITS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_latency_s": "latency"}
"""The limits of an SLO, as they are called."""


def number(finding: Finding, name: str) -> Any:
    """One number of a finding. Raises KeyError and ValueError where it is not there."""
    value = finding.numbers[name]
    if value is None:
        raise ValueError(f"{name} is not known")
    return value


def numbers(finding: Finding, *names: str) -> tuple[Any, ...]:
    """Several, in the order asked for."""
    return tuple(number(finding, name) for name in names)


def named_by(finding: Finding) -> str:
    """The subject of a finding: the label of a metric or of a limit, else as it stands."""
    if finding.subject in LIMITS:
        return LIMITS[finding.subject]
    from twinlens.stats.metrics.definition import METRICS  # a claim and a plan name none

    return METRICS[finding.subject].label if finding.subject in METRICS else finding.subject


def percent(share: float) -> str:
    """ "7.6 %" """
    return f"{digits(100 * share, 2)} %"


def how_often(count: int) -> str:
    """ "once", "3 times" """
    return "once" if count == 1 else f"{count} times"


def with_interval(estimate: Estimate) -> str:
    """A number with its interval: "1.02 (0.98 to 1.05)"."""
    if estimate.value is None:
        return "an unknown share"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3g}"
    return f"{estimate.value:.3g} ({estimate.low:.3g} to {estimate.high:.3g})"


def law_pages(laws: Iterable[str]) -> str:
    """Laws of theory by name, and how to read one: "weights, kv: twinlens explain weights"; "" for none."""
    names = list(laws)
    return f"{', '.join(names)}: twinlens explain {names[0]}" if names else ""
