"""Ways of holding requests back, side by side: what they cost, and which has the lowest tail, as a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.reporting import display
from twinlens.reporting.load_kind import LoadKind, load_of, place_of, policy_of
from twinlens.reporting.text.column import Column
from twinlens.stats.summary.group import Group
from twinlens.stats.summary.policy_choice import Choice, TailDifference, choose
from twinlens.units import show

_TAILS = {"ttft_s_p99": "p99 TTFT", "e2e_latency_s_p99": "p99 latency"}
_AT: dict[LoadKind, str] = {
    "rate": "at {:.4g} requests/s",
    "concurrency": "at {:.4g} in flight",
    "other": "under its load",
}

HELD = "Held back in front of the server"
WHY = (
    "Mean of each part of the hold: queued, every place taken; blocked, a place free but the batch before not over "
    "(head-of-line blocking); gathering, nothing running and the batch not full. All of it is in TTFT and latency."
)
HOLD_COLUMNS = (
    Column("hold p99", ("hold_s_p99",)),
    Column("queued", ("queued_s_mean",)),
    Column("blocked", ("blocked_s_mean",)),
    Column("gathering", ("gathering_s_mean",)),
    Column("latency p99", ("e2e_latency_s_p99",)),
)
"""What stands beside each other for points with a policy; the three in the middle are means."""


def has_policies(groups: Sequence[Group]) -> bool:
    return any(one.point.get("admission") is not None for one in groups)


def choices(groups: Sequence[Group]) -> tuple[str, ...]:
    """One sentence for each load under which several policies stand, and for each tail."""
    alike: dict[tuple[str, str, LoadKind, float], list[Group]] = {}
    for one in groups:
        if one.point.get("admission") is not None:
            load = load_of(one)
            place = 0.0 if load == "other" else place_of(one)
            model = f"{one.model} {one.tag}"  # of one machine: a policy is never chosen across two
            alike.setdefault((model, display.clean(one.point.get("precision"), 40), load, place), []).append(one)
    several = len(alike) > 1
    return tuple(
        _sentence(choose(found, metric), f"{precision} {_AT[load].format(place)}" if several else "")
        for (_, precision, load, place), found in alike.items()
        if len(found) > 1
        for metric in _TAILS
    )


def _sentence(choice: Choice, where: str) -> str:
    tail, at = _TAILS[choice.metric], f" ({where})" if where else ""
    if choice.best is None:
        return f"No policy can be chosen by {tail}{at}: fewer than two are ranked and have one."
    best = choice.best
    first = f"{policy_of(best.point)} has the lowest {tail}{at}, {_with_bounds(best, choice.metric)}"
    apart = [_more(one) for one in choice.differences if one.is_told_apart]
    alike = [_more(one) for one in choice.differences if not one.is_told_apart]
    words = [first]
    if apart:
        words.append(f"less than {' and '.join(apart)}")
    if alike:
        words.append(f"not told apart from {' and '.join(alike)}")
    if choice.left_out:
        words.append(f"not compared: {', '.join(policy_of(one.point) for one in choice.left_out)}")
    return f"{'; '.join(words)}: {_verdict(choice, tail)}."


def _verdict(choice: Choice, tail: str) -> str:
    alike = [one.other for one in choice.differences if not one.is_told_apart]
    if not alike:
        return f"by {tail} take {policy_of(choice.best.point)}" if choice.best else ""
    names = [policy_of(one.point) for one in (choice.best, *alike) if one is not None]
    return f"by {tail} {' and '.join(names)} cannot be told apart"


def _with_bounds(one: Group, metric: str) -> str:
    found = one.metrics[metric]
    bounds = display.bounds(found)
    return display.value(found) + (f" ({bounds})" if bounds else " (no interval)")


def _more(one: TailDifference) -> str:
    name = policy_of(one.other.point)
    if one.low_s is None or one.high_s is None:
        return f"{name} (+{show(one.more_s, 's')}, no interval)"
    return f"{name} (+{show(one.more_s, 's')}, {show(one.low_s, 's')} to {show(one.high_s, 's')})"
