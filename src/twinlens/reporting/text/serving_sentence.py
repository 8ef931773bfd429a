"""One sentence on what was served: how far each precision went, and what lay beyond."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.record.estimate import Estimate
from twinlens.record.search import SearchRecord
from twinlens.reporting import display
from twinlens.reporting.load_kind import LoadKind, fault_of, load_of, place_of
from twinlens.reporting.text.search_table import asked, interval, where
from twinlens.reporting.view import precision_of
from twinlens.stats.summary.group import Group

_AT: dict[LoadKind, str] = {
    "rate": "{:.4g} requests/s",
    "concurrency": "{:.4g} requests in flight",
    "other": "its load",
}


def served_sentence(groups: Sequence[Group], searches: Sequence[SearchRecord] = ()) -> str:
    """What each search found; else, for each model, load and precision, the highest ranked point and what came next."""
    found_by = [
        f"{f'{name}: ' if (name := where(one)) else ''}the highest within the SLO ({asked(record)}) is "
        f"{interval(one, record.search.unit)} ({one.outcome})"
        for record in searches
        for one in record.found
    ]
    searched = {"rate" if record.search.over == "rate_per_s" else "concurrency" for record in searches}
    groups = [one for one in groups if load_of(one) not in searched]
    alike: dict[tuple[str, str, LoadKind, str], list[Group]] = {}
    for one in groups:
        alike.setdefault((one.model, one.tag, load_of(one), precision_of(one)), []).append(one)
    said = [_one(load, name, found) for (_, _, load, name), found in alike.items()]
    models, tags = {model for model, *_ in alike}, {tag for _, tag, *_ in alike}
    names = [
        (f"machine {tag}, " if len(tags) > 1 and tag else "")
        + (f"{display.clean(model, 40)}, " if len(models) > 1 else "")
        for model, tag, *_ in alike
    ]
    return f"served, {'; '.join([*found_by, *(name + words for name, words in zip(names, said, strict=True))])}."


def _one(load: LoadKind, name: str, found: Sequence[Group]) -> str:
    ranked = [one for one in found if one.ranked]
    if not ranked:
        faults = ", ".join(dict.fromkeys(fault_of(one) for one in found))
        return f"{name} has no point that can be ranked ({faults})"
    best = max(ranked, key=place_of)
    beyond = [one for one in found if not one.ranked and place_of(one) > place_of(best)]
    what = f"{name} at {_AT[load].format(place_of(best))}{_gave(best)}"
    if not beyond:
        return what
    after = min(beyond, key=place_of)
    return f"{what}; {_AT[load].format(place_of(after))} is not ranked ({fault_of(after)})"


def _gave(one: Group) -> str:
    times = [
        f"{label} {display.value(found)}"
        for label, key in (("p99 TTFT", "ttft_s_p99"), ("p99 TPOT", "tpot_s_p99"))
        if _has(found := one.metrics.get(key))
    ]
    good = one.metrics.get("slo_attainment")
    if good is not None and good.value is not None:
        times.append(f"{display.value(good)} of requests within the SLO")
    return f" has {', '.join(times)}" if times else ""


def _has(found: Estimate | None) -> bool:
    return found is not None and found.value is not None
