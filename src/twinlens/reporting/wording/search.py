"""Sentences on a search: each value against the SLO, and the remaining interval."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import LIMITS, number, numbers, percent
from twinlens.stats.search.next_rate import CONFIDENCE


def interval(low: float | None, high: float | None, unit: str) -> str:
    """The interval for people: "between 8 and 11.3 requests/s"."""
    if low is not None and high is not None:
        return f"between {low:.4g} and {high:.4g} {unit}"
    if low is not None:
        return f"at least {low:.4g} {unit}"
    return "not known yet" if high is None else f"below {high:.4g} {unit}"


def _share(share: float) -> str:
    return f"{100 * share:.4g}%"


def _limit(limit: dict[str, float | str | None]) -> str:
    share, low, high = (limit[name] for name in ("share", "low", "high"))
    if not isinstance(share, int | float):
        return f"{LIMITS[str(limit['limit'])]}: not measured"
    known = isinstance(low, int | float) and isinstance(high, int | float)
    bounds = f" ({_share(low)} to {_share(high)})" if known else ""  # type: ignore[arg-type]
    return f"{LIMITS[str(limit['limit'])]} ≤ {limit['limit_s']:g} s: {_share(share)}{bounds}"


def _shares(finding: Finding) -> str:
    """The share of requests within each limit, with its interval: what the verdict rests on."""
    limits, quantile, runs = numbers(finding, "limits", "quantile", "runs")
    several = f" in {runs} runs" if runs > 1 else ""
    return f"{'; '.join(map(_limit, limits))}; wanted {_share(quantile)}{several}"


def _between(finding: Finding) -> str:
    low, high = finding.numbers.get("low"), finding.numbers.get("high")
    return interval(low, high, str(number(finding, "unit")))


def _sure(finding: Finding) -> str:
    return f"{_between(finding)} ({CONFIDENCE:.0%} confidence)"


def _more(finding: Finding) -> str:
    """What would make the interval narrow; nothing where that is not known."""
    if "most_points" not in finding.numbers:
        return ""
    points, more_s, width = numbers(finding, "most_points", "more_s", "width")
    return f"; search.most_points {points} ({more_s:,.0f} s more) is expected to narrow it to {percent(width)}"


def _none(finding: Finding) -> str:
    high, unit = finding.numbers.get("high"), number(finding, "unit")
    return f"even {'the least' if high is None else f'{high:.4g}'} {unit} is beyond the SLO"


def _all(finding: Finding) -> str:
    low, unit = finding.numbers.get("low"), number(finding, "unit")
    return f"even {'the most' if low is None else f'{low:.4g}'} {unit} is within the SLO: the limit was not reached"


def _seconds_spent(finding: Finding) -> str:
    budget_s, spent_s = numbers(finding, "budget_s", "spent_s")
    between = f"{_between(finding)}{_more(finding)}"
    return f"the budget of {budget_s:g} s is spent ({spent_s:.0f} s); the highest within the SLO is {between}"


def _run_failed(finding: Finding) -> str:
    value, unit, error = numbers(finding, "value", "unit", "error")
    return f"the run at {value:g} {unit} failed: {error}"


CLAUSES = {
    "slo-shares": _shares,
    "search-narrow": lambda finding: f"the highest rate within the SLO is {_sure(finding)}",
    "search-unclear": lambda finding: f"{_sure(finding)}; runs of this length cannot narrow it: measure longer",
    "search-budget": lambda finding: (
        f"the budget of points is spent; the highest rate within the SLO is {_sure(finding)}{_more(finding)}"
    ),
    "search-none": _none,
    "search-all": _all,
    "search-running": lambda finding: f"so far the highest within the SLO is {_between(finding)}",
    "search-not-begun": lambda finding: "not started",
    "search-seconds-spent": _seconds_spent,
    "search-run-failed": _run_failed,
}
