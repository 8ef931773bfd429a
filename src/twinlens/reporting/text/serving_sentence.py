"""One sentence on what was served: how far each precision went, and what lay beyond."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.record.beside import SearchRecord
from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.load_kind import LoadKind, fault_of, load_of, place_of
from twinlens.reporting.point_name import precision_of
from twinlens.reporting.search import search_interval, slo_words, swept_point
from twinlens.stats.summary.group import Group

_AT: dict[LoadKind, str] = {
    "rate": "{:.4g} requests/s",
    "concurrency": "{:.4g} requests in flight",
    "other": "its load",
}


def served_sentence(groups: Sequence[Group], searches: Sequence[SearchRecord] = ()) -> str:
    """The result of each search; else, for each model, load and precision, the highest valid point and what came
    next."""
    found_by = [
        f"{f'{name}: ' if (name := swept_point(result)) else ''}the highest within the SLO ({slo_words(record)}) is "
        f"{search_interval(result, record.search.unit)} ({result.outcome})"
        for record in searches
        for result in record.results
    ]
    searched = {"rate" if record.search.over == "rate_per_s" else "concurrency" for record in searches}
    groups = [result for result in groups if load_of(result) not in searched]
    alike: dict[tuple[str, str, LoadKind, str], list[Group]] = {}
    for result in groups:
        alike.setdefault((result.model, result.tag, load_of(result), precision_of(result)), []).append(result)
    clauses = [_highest_ranked(load, name, members) for (_, _, load, name), members in alike.items()]
    models, tags = {model for model, *_ in alike}, {tag for _, tag, *_ in alike}
    names = [
        (f"machine {tag}, " if len(tags) > 1 and tag else "")
        + (f"{display.clean(model, 40)}, " if len(models) > 1 else "")
        for model, tag, *_ in alike
    ]
    return f"served, {'; '.join([*found_by, *(name + words for name, words in zip(names, clauses, strict=True))])}."


def _highest_ranked(load: LoadKind, name: str, members: Sequence[Group]) -> str:
    ranked = [group for group in members if group.ranked]
    if not ranked:
        faults = ", ".join(dict.fromkeys(fault_of(group) for group in members))
        return f"{name} has no valid point ({faults})"
    best = max(ranked, key=place_of)
    beyond = [group for group in members if not group.ranked and place_of(group) > place_of(best)]
    best_point = f"{name} at {_AT[load].format(place_of(best))}{_figures(best)}"
    if not beyond:
        return best_point
    after = min(beyond, key=place_of)
    return f"{best_point}; {_AT[load].format(place_of(after))} is not valid ({fault_of(after)})"


def _figures(group: Group) -> str:
    """Its tails, or its medians where too few requests came for a tail, and what met the SLO or was done at all."""
    times = _times(group, "p99") or _times(group, "p50")
    good = group.metrics.get("slo_attainment")
    if good is not None and good.value is not None:
        times.append(f"{display.value(good)} of requests within the SLO")
    elif _has(done := group.metrics.get("requests_per_s")):
        times.append(f"{display.value(done)} done")
    return f" has {', '.join(times)}" if times else ""


def _times(group: Group, quantile: str) -> list[str]:
    return [
        f"{quantile} {label} {display.value(estimate)}"
        for label, name in (("TTFT", "ttft_s"), ("TPOT", "tpot_s"))
        if _has(estimate := group.metrics.get(f"{name}_{quantile}"))
    ]


def _has(estimate: Estimate | None) -> bool:
    return estimate is not None and estimate.value is not None
