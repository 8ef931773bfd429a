"""Ways of serving side by side (policies, executors, switches): what holding requests back costs, and which way has the
lowest tail, as a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.load_kind import LoadKind, apart_of, load_of, place_of
from twinlens.reporting.text.column import column
from twinlens.stats.paired.arrivals import Choice, TailDifference, choose
from twinlens.stats.summary.group import Group
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
    column("hold_s_p99"),
    column("queued_s_mean", head="queued"),
    column("blocked_s_mean", head="blocked"),
    column("gathering_s_mean", head="gathering"),
    column("e2e_latency_s_p99"),
)
"""Columns for points with a policy; the three in the middle are means."""


def has_policies(groups: Sequence[Group]) -> bool:
    return any(group.point.get("admission") is not None for group in groups)


def choices(groups: Sequence[Group], runs: Mapping[str, Run] | None = None) -> tuple[str, ...]:
    """One sentence for each load under which several ways of serving stand, and for each tail; `runs` by id.

    Of executors and switches only where all met the same arrivals: nothing else says that they did the same work.
    """
    held = has_policies(groups)
    alike: dict[tuple[str, str, LoadKind, float], list[Group]] = {}
    for group in groups:
        if group.point.get("admission") is not None or (not held and apart_of(group)):
            load = load_of(group)
            place = 0.0 if load == "other" else place_of(group)
            model = f"{group.model} {group.tag}"  # of one machine: a way is never chosen across two
            alike.setdefault((model, display.clean(group.point.get("precision"), 40), load, place), []).append(group)
    several = len(alike) > 1
    chosen = [
        (choose(members, metric, runs), f"{precision} {_AT[load].format(place)}" if several else "")
        for (_, precision, load, place), members in alike.items()
        if len(members) > 1
        for metric in _TAILS
    ]
    return tuple(_sentence(choice, where) for choice, where in chosen if held or _is_of_arrivals(choice))


def _is_of_arrivals(choice: Choice) -> bool:
    return bool(choice.differences) and all(each.arrivals for each in choice.differences)


def _sentence(choice: Choice, where: str) -> str:
    tail, place = _TAILS[choice.metric], f" ({where})" if where else ""
    if choice.best is None:
        return f"No policy can be chosen by {tail}{place}: fewer than two are valid and have one."
    best = choice.best
    first = f"{apart_of(best)} has the lowest {tail}{place}, {_with_bounds(best, choice.metric)}"
    apart = [_difference(difference) for difference in choice.differences if difference.is_told_apart]
    alike = [_difference(difference) for difference in choice.differences if not difference.is_told_apart]
    words = [first]
    if apart:
        words.append(f"less than {' and '.join(apart)}")
    if alike:
        words.append(f"not told apart from {' and '.join(alike)}")
    if choice.left_out:
        words.append(f"not compared: {', '.join(apart_of(difference) for difference in choice.left_out)}")
    if pairs := {(each.arrivals, each.stretches) for each in choice.differences if each.arrivals}:
        arrivals, stretches = min(pairs)
        words.append(f"each against it on the same {arrivals} arrivals, in the median of {stretches} stretches")
    return f"{'; '.join(words)}: {_verdict(choice, tail)}."


def _verdict(choice: Choice, tail: str) -> str:
    alike = [group.other for group in choice.differences if not group.is_told_apart]
    if not alike:
        return f"by {tail} take {apart_of(choice.best)}" if choice.best else ""
    names = [apart_of(group) for group in (choice.best, *alike) if group is not None]
    return f"by {tail} {' and '.join(names)} cannot be told apart"


def _with_bounds(group: Group, metric: str) -> str:
    estimate = group.metrics[metric]
    bounds = display.bounds(estimate)
    return display.value(estimate) + (f" ({bounds})" if bounds else " (no interval)")


def _difference(difference: TailDifference) -> str:
    name = apart_of(difference.other)
    if difference.low_s is None or difference.high_s is None:
        return f"{name} (+{show(difference.more_s, 's')}, no interval)"
    return f"{name} (+{show(difference.more_s, 's')}, {show(difference.low_s, 's')} to {show(difference.high_s, 's')})"
