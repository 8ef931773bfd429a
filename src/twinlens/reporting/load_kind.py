"""The kind of load of a group: lockstep, a rate, a concurrency, or other. No two share an axis.

And how they were held back on the way, where a policy did that: points that differ in it have names that say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.reporting.display import clean
from twinlens.reporting.wording.finding import label_words, verdict_word
from twinlens.spec.point import FROM_LOG, WATCHED
from twinlens.spec.source.attached import TRAFFIC
from twinlens.stats.summary.group import Group, Summary
from twinlens.units import show

LoadKind = Literal["lockstep", "rate", "concurrency", "other"]
SERVED: tuple[LoadKind, ...] = ("rate", "concurrency", "other")
TITLES: dict[LoadKind, str] = {
    "lockstep": "in lockstep batches",
    "rate": "served at a rate (open loop)",
    "concurrency": "served by concurrency (closed loop)",
    "other": "served under load that changes or comes at once",
}


POLICY_KEYS = ("admission", "batch", "timeout_s", "in_flight")


def policy_of(point: Mapping[str, Any]) -> str:
    """ "static 8", "dynamic 8, 50 ms", "continuous 8", or "" where no policy held requests back."""
    return ", ".join(_policy(point))


def _policy(point: Mapping[str, Any]) -> tuple[str, ...]:
    """The policy with its size, and its timeout."""
    name = point.get("admission")
    if name is None:
        return ()
    size = point.get("in_flight") if name == "continuous" else point.get("batch", 1)
    parts = [clean(name, 20)] + ([clean(size, 10)] if size is not None else [])
    timeout_s = point.get("timeout_s")
    late = (show(timeout_s, "s"),) if isinstance(timeout_s, int | float) else ()
    return (" ".join(parts), *late)


def kind_of(group: Group | Summary) -> str:
    """The kind of a line of a chart or a row of a table: the precision, then what tells points apart: the executor
    where there are several, the policy where there is one, and the switches in which points differ."""
    return ", ".join(kinds_of(group))


def kinds_of(group: Group | Summary) -> tuple[str, ...]:
    """The same, part by part."""
    apart = _apart(group) if isinstance(group, Group) else _policy(group.point)
    return tuple(filter(None, (clean(group.point.get("precision", "?"), 40), *apart)))


def apart_of(group: Group) -> str:
    """Executor, policy and switches that tell a served point from others of its precision and load; "" for none."""
    return ", ".join(filter(None, _apart(group)))


def _apart(group: Group) -> tuple[str, ...]:
    return _server_words(group.executor), *_policy(group.point), switches_of(group)


def _server_words(executor: str) -> str:
    """The runtime of an executor that serves, in a column of twelve letters: "onnxruntime" of "onnxruntime-served"."""
    name = clean(executor, 40)
    return name.rpartition("-")[0] if name.endswith(("-served", "-serve", "-server")) else name


def switches_of(group: Group) -> str:
    """ "prefix caching off"; "default" for the point without any beside others; "" where the points differ in none."""
    if group.switches is None:
        return ""
    return " + ".join(map(switch_words, group.switches.items())) or "default"


def switch_words(switch: tuple[str, Any]) -> str:
    """One option and its value in words."""
    name, value = switch
    worth = {True: "on", False: "off"}[value] if isinstance(value, bool) else clean(value, 20)
    return f"{clean(name.replace('_', ' '), 24)} {worth}"


def load_of(group: Group | Summary) -> LoadKind:
    """Training, engine-level inference and exchanges between ranks are "lockstep"; "other" is a ramp, a trace, all at
    once, a single stream."""
    if group.lens != "inference":
        return "lockstep"
    if group.point.get("rate_per_s") is not None:
        return "rate"
    if group.point.get("concurrency") is not None:
        return "concurrency"
    return "other" if "offered_requests_per_s" in group.metrics else "lockstep"


def place_words(group: Group) -> str:
    """ "4 in flight", "2/s"; "" of a load that has neither."""
    words = {"concurrency": " in flight", "rate_per_s": "/s"}
    return ", ".join(f"{group.point[key]:g}{word}" for key, word in words.items() if group.point.get(key) is not None)


def place_of(group: Group) -> float:
    """Where a group stands on the axis of its load: its rate, its concurrency, or the rate at which requests came."""
    given = group.point.get("rate_per_s") or group.point.get("concurrency")
    offered = group.metrics.get("offered_requests_per_s")
    if isinstance(given, int | float):
        return float(given)
    return offered.value or 0.0 if offered is not None else 0.0


def fault_of(group: Group) -> str:
    """Why its numbers are drawn hollow, in a word or two; "" for a group that is valid or provisional."""
    return "" if group.ranked else _fault(group, label_words)


def verdict_of(group: Group) -> str:
    """The verdict on a point in one word of a first screen: valid, provisional, or why it is not valid."""
    return group.validity if group.ranked else _fault(group, verdict_word)


def _fault(group: Group, word: Callable[[str], str]) -> str:
    states = [run.state for run in group.runs if run.state != "finished"]
    return clean(states[0] if states else word(group.label), 40)


# Runs that Twinlens drove, and those of programs that somebody else started.


def is_driven(run: Run) -> bool:
    """Whether duration, seed and repeats were Twinlens' own to decide."""
    return run.spec.executor.kind not in (WATCHED, FROM_LOG)


def is_traffic(findings: Iterable[Finding]) -> bool:
    """Whether clients of a gateway asked as they liked, and nobody set the load."""
    return any(each.code == TRAFFIC for each in findings)
