"""`--quick`: a study cut to a minute, as settings that go before the user's own, and what that gives up."""

from __future__ import annotations

from twinlens.spec.study import Study

_TOTAL_S, _BESIDE_S, _SHORTEST_S = 60.0, 5.0, 5.0
"""In all; what a run costs beside its rows; and what no run is shorter than, however many there are."""
_REQUEST_S = 60.0
"""How long a request to a server that is up may take: with 300 s, one that hangs holds each run for five minutes."""


def quick(study: Study) -> tuple[str, ...]:
    """Settings (`path=value`) that make it one short run per point, none of them taken again. A search: four runs."""
    protocol = study.protocol
    runs = 4 if study.search else len(study.points())
    each_s = max(_SHORTEST_S, round(_TOTAL_S / runs - _BESIDE_S))
    duration_s = min(protocol.duration_s, each_s)
    settings = [
        f"protocol.duration_s={duration_s:g}",
        "protocol.repeats=1",
        "protocol.retakes=0",
        "protocol.extend=0",
        f"protocol.steady_s={min(protocol.steady_s, round(duration_s / 3, 1)):g}",
        f"protocol.min_rows={min(protocol.min_rows, 20)}",
    ]
    if _is_attached(study):
        settings.append(f"executor.options.timeout_s={_timeout_s(study):g}")
    return (*settings, "search.most_points=4", "search.tries=1") if study.search else tuple(settings)


def given_up(whole: Study, cut: Study) -> str:
    """One sentence: what was cut, and what cannot be known for that."""
    was, now = whole.protocol, cut.protocol
    before = f"{was.repeats} run{'' if was.repeats == 1 else 's'} of {was.duration_s:g} s"
    instead = "" if (was.repeats, was.duration_s) == (1, now.duration_s) else f" instead of {before}"
    ends = f", and a request that takes {_timeout_s(cut):g} s has failed" if _is_attached(cut) else ""
    return (
        f"quick: 1 run of {now.duration_s:g} s at each point{instead}, and none is taken again if other "
        f"programs disturb it: no spread between runs, wider intervals, fewer quantiles{ends}"
    )


def _is_attached(study: Study) -> bool:
    return study.executor.kind == "openai-http"


def _timeout_s(study: Study) -> float:
    asked = study.executor.options.get("timeout_s", _REQUEST_S)
    return min(asked, _REQUEST_S) if isinstance(asked, int | float) else _REQUEST_S
