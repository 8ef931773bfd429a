"""`--quick`: a study cut to a minute of load, as settings that go before the user's own, and what that gives up."""

from __future__ import annotations

import json
import math
from typing import Any

from twinlens.schedule.open_loop import arrival_times_ns
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.workload.arrival import Constant, Gamma, Poisson
from twinlens.spec.workload.workload import InferenceWorkload

_TOTAL_S, _SHORTEST_S = 60.0, 5.0
"""The load of all runs together, and what no run is shorter than, however many there are."""
_REQUEST_S = 60.0
"""How long a request to a server that is up may take: with 300 s, one that hangs holds each run for five minutes."""
_FEWEST, _FILL_S = 20, 3.0
"""The requests without which no run is judged, and the time in which a server that was idle fills up."""


def quick(study: Study) -> tuple[str, ...]:
    """Settings (`path=value`) that make it one short run per point, none of them taken again. A search: four runs."""
    protocol = study.protocol
    runs = 4 if study.search else len(study.points())
    each_s = max(_SHORTEST_S, round(_TOTAL_S / runs, 1))
    duration_s = min(protocol.duration_s, each_s)
    settings = [
        f"protocol.duration_s={duration_s:g}",
        "protocol.most_s=0",
        "protocol.repeats=1",
        "protocol.retakes=0",
        "protocol.extend=0",
        f"protocol.steady_s={min(protocol.steady_s, round(duration_s / 3, 1)):g}",
        f"protocol.min_rows={min(protocol.min_rows, _FEWEST)}",
    ]
    if _is_attached(study):
        settings.append(f"executor.options.timeout_s={_timeout_s(study):g}")
    return (*settings, "search.most_points=4", "search.tries=1") if study.search else tuple(settings)


def shared_by_rate(cut: Study) -> Study:
    """The same runs in the same time, shared by what each rate needs to be judged: a slow one takes longer.

    Where the time does not do for all, the fastest have what they need, and the slowest has what is left. A study whose
    points all take the same time (one rate, closed loops, a search) comes back as it is.
    """
    runs = cut.point_runs()
    needs = [_needed_s(run) for run in runs]
    if cut.search is not None or None in needs or len({run.point.rate_per_s for run in runs}) < 2:
        return cut
    durations_s = _shares([need or 0.0 for need in needs], len(runs) * cut.protocol.duration_s)
    data = cut.to_dict()
    data["variants"] = [
        {path: [value] for path, value in point.items()} | {"protocol.duration_s": [duration_s]}
        for point, duration_s in zip(cut.points(), durations_s, strict=True)
    ]
    data["sweep"] = {}
    data["protocol"]["steady_s"] = min(cut.protocol.steady_s, round(min(durations_s) / 3, 1))
    return Study.model_validate_json(json.dumps(data))


def _needed_s(run: RunSpec) -> float | None:
    """Seconds of its own schedule until `_FEWEST` requests have come after the fill; None where nobody can know."""
    workload: Any = run.workload
    known = isinstance(workload, InferenceWorkload) and isinstance(workload.arrival, Constant | Poisson | Gamma)
    if not known or not run.point.rate_per_s:
        return None
    until_s = _FILL_S + 10 * (1 + _FEWEST / run.point.rate_per_s)
    due_s = arrival_times_ns(workload.arrival, run.point.rate_per_s, until_s, run.seed) / 1e9
    counted = due_s[due_s >= _FILL_S]
    return float(counted[_FEWEST - 1]) if counted.size >= _FEWEST else until_s


def _shares(needs_s: list[float], total_s: float) -> list[float]:
    """Whole tenths of a second of each: all that is needed and the rest in proportion, or the shortest needs first."""
    if sum(needs_s) <= total_s:
        return [max(_SHORTEST_S, round(need * total_s / sum(needs_s), 1)) for need in needs_s]
    shares, left_s = [0.0] * len(needs_s), total_s
    for index in sorted(range(len(needs_s)), key=needs_s.__getitem__):
        share_s = min(needs_s[index], left_s)
        shares[index] = max(_SHORTEST_S, math.ceil(10 * share_s) / 10)
        left_s = max(0.0, left_s - share_s)
    return shares


def given_up(whole: Study, cut: Study) -> str:
    """One sentence: what was cut, and what cannot be known for that."""
    was = whole.protocol
    before = f"{was.repeats} run{'' if was.repeats == 1 else 's'} of {was.duration_s:g} s"
    taken = {run.protocol.duration_s: run.point.rate_per_s for run in cut.point_runs()}
    by_rate = ", ".join(f"{duration_s:g} s at {rate:g}/s" for duration_s, rate in taken.items() if rate)
    each = f"of {by_rate}" if len(taken) > 1 else f"of {next(iter(taken)):g} s at each point"
    instead = "" if (was.repeats, {was.duration_s}) == (1, set(taken)) else f" instead of {before}"
    ends = f", and a request that takes {_timeout_s(cut):g} s has failed" if _is_attached(cut) else ""
    return (
        f"quick: 1 run {each}{instead}, and none is taken again if other "
        f"programs disturb it: no spread between runs, wider intervals, fewer quantiles{ends}"
    )


def _is_attached(study: Study) -> bool:
    return study.executor.kind == "openai-http"


def _timeout_s(study: Study) -> float:
    asked = study.executor.options.get("timeout_s", _REQUEST_S)
    return min(asked, _REQUEST_S) if isinstance(asked, int | float) else _REQUEST_S
