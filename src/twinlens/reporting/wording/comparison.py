"""Sentences on comparisons: whether two sides may be compared, what differs, and the size of an effect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from twinlens.comparison.effect import Effect
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.display import clean, factor, factor_bounds, join_names
from twinlens.reporting.wording.number import named_by, number, numbers, percent
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import BYTES, show

_MOST_FIELDS = 3


_NEAREST = {
    "workload": "Measure both with one spec.",
    "load": "Measure both at the same rate or concurrency.",
    "model": "Measure the same weights on both.",
    "protocol": "Measure both under one protocol.",
}


def several_differ(finding: Finding) -> str:
    things = number(finding, "things")
    joined = f"{', '.join(things[:-1])} and {things[-1]}"
    return f"{joined[:1].upper()}{joined[1:]} differ: a ratio is of all of them together, and of none alone."


def precision_compared(finding: Finding) -> str:
    a, b = numbers(finding, "a", "b")
    gates = [(letter, finding.numbers.get(f"{letter.lower()}_passes")) for letter in "AB"]
    told = [f"{letter} {'passes' if go else 'fails'} the quality check" for letter, go in gates if go is not None]
    quality = f" ({', '.join(told)})" if told else ""
    return f"{a} and {b} are different products: read the quality of each beside its speed{quality}."


def not_said(finding: Finding) -> str:
    sides, fields = numbers(finding, "sides", "fields")
    verb = "does" if len(sides) == 1 else "do"
    return f"{' and '.join(sides)} {verb} not say everything ({join_names(fields, 4)}): it may differ too."


def limit_passed(finding: Finding) -> str:
    limit, name = numbers(finding, "limit", "name")
    ratio = finding.evidence["ratio"]
    size = f"{factor(ratio)} ({factor_bounds(ratio)})"
    whose = f"{named_by(finding)} of {clean(name, 60)}"
    return f"{whose} is {size} that of the baseline, beyond the limit of {_change(limit)}."


def _undecided(finding: Finding, limit: float, name: str) -> str:
    ratio, needed, runs = finding.evidence["ratio"], finding.numbers.get("needed"), number(finding, "runs")
    where = (
        f"{named_by(finding)} of {clean(name, 60)} is {factor(ratio)} ({factor_bounds(ratio)}) that of the baseline, "
        f"and the limit of {_change(limit)} lies in that interval."
    )
    if needed is None:
        return f"{where} The ratio is so close to the limit that more runs would not decide it."
    return f"{where} About {needed} runs a side would decide it (now {runs}), if the ratio stays."


def limit_unjudged(finding: Finding) -> str:
    limit, name = numbers(finding, "limit", "name")
    if finding.numbers.get("missing"):
        folder = clean(str(finding.numbers.get("folder") or ""), 60)
        where = f"{folder} has no such point" if folder else "no other point is there to set beside it"
        return (
            f"Whether {named_by(finding)} of {clean(name, 60)} keeps the limit of {_change(limit)} cannot be said: "
            f"it is a point of the baseline, and {where}."
        )
    if "needed" in finding.numbers:
        return f"Undecided: {_undecided(finding, limit, name)}"
    why = finding.numbers.get("reason")
    if lens := finding.numbers.get("of_lens"):
        names = ", ".join(clean(each, 60) for each in finding.numbers.get("namesakes", ()))
        why = f"it is a metric of {lens}, and these runs are not" + (f"; ask for {names}" if names else "")
    if finding.numbers.get("verdict") in ("not comparable", "category error"):
        why = "these runs are not comparable"
    return (
        f"Whether {named_by(finding)} of {clean(name, 60)} keeps the limit of {_change(limit)} cannot be said: {why}."
    )


def _change(limit: float) -> str:
    return f"{'+' if limit > 0 else '−'}{percent(abs(limit))}"


def differ(finding: Finding) -> str:
    """ "driver differs", "settings differ"."""
    return f"{finding.subject} differ{'' if finding.subject.endswith('s') else 's'}"


def fields(finding: Finding) -> str:
    """ "precision fp32 → bf16, driver 550 → 560 and 2 more"."""
    fields: Sequence[dict[str, Any]] = number(finding, "fields")
    told = [words for field in fields for words in _field(field["label"], field["a"], field["b"])]
    return join_names(list(dict.fromkeys(told)), _MOST_FIELDS)  # asked and observed alike are said once


def _field(label: str, a: Sequence[Any], b: Sequence[Any]) -> list[str]:
    """ "driver 550 → 560"; of two tables ("model shape") each entry that differs: "model shape: layers 2 → 4"."""
    if len(a) == len(b) == 1 and isinstance(a[0], dict) and isinstance(b[0], dict) and "kind" not in {*a[0], *b[0]}:
        names = [name for name in {**a[0], **b[0]} if a[0].get(name) != b[0].get(name)]
        return [
            f"{label}: {clean(str(name), 30).replace('_', ' ')} "
            f"{values_words(name, [a[0].get(name)])} → {values_words(name, [b[0].get(name)])}"
            for name in names
        ]
    return [f"{label} {values_words(label, a)} → {values_words(label, b)}"]


def values_words(label: str, values: Sequence[Any]) -> str:
    """The values of a field on one side: "bf16", "550 or 560", "unknown"."""
    texts = [_text(label, value) for value in values]
    return clean(" or ".join(texts), 48) if texts else "unknown"


def _text(label: str, value: Any) -> str:
    """A value as people write it; bytes with their unit, so that GB and GiB are never confused."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and "memory" in label and value > 1 << 20:
        return show(value, BYTES)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict) and value.get("kind") == "fixed":
        return str(value.get("value"))
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


_WAYS = {"slices": ", from slices by turns", "arrivals": ", on the same arrivals"}


def label_of(metric: str) -> str:
    """The label of a metric, safe to show."""
    return METRICS[metric].label if metric in METRICS else display.clean(metric, 30)


def effect_words(effect: Effect) -> str:
    """One effect as a clause; of one that has no ratio, why."""
    label = label_of(effect.metric)
    if effect.ratio.value is None and effect.difference.value is None:
        return f"{label}: no ratio ({display.clean(effect.ratio.lacks)})"
    by_turns = _WAYS.get(effect.way, "")
    if effect.apart is None:
        return f"{label}: {_size(effect)}; whether they differ cannot be said ({display.no_interval(effect.ratio)})"
    if effect.apart:
        return f"{label}: {_size(effect)}{by_turns}"
    if effect.floor is not None and effect.ratio.low is not None and not _holds_1(effect):
        return (
            f"{label}: no difference beyond the noise floor of this machine, {percent(effect.floor)} ({_size(effect)})"
        )
    if effect.way in ("runs", "arrivals") and effect.chance is not None and not _holds_1(effect):
        return f"{label}: A and B are not told apart among so many figures ({_size(effect)})"
    seen = f"; a change below {percent(effect.smallest)} could not have shown" if effect.smallest else ""
    return f"{label}: A and B cannot be told apart ({_size(effect)}{by_turns}{seen})"


def _holds_1(effect: Effect) -> bool:
    """Whether by itself its ratio may be 1."""
    low, high = effect.ratio.low, effect.ratio.high
    return low is None or low <= 1 <= (high or 1)


def _size(effect: Effect) -> str:
    if effect.ratio.value is None:
        return f"B is {display.value(effect.difference)} above A"
    bounds = display.factor_bounds(effect.ratio)
    return f"B is {display.factor(effect.ratio)} A{f' ({bounds})' if bounds else ''}"


def nearest(finding: Finding) -> str:
    """ " Measure both with one spec.": how to make two sides alike that are not."""
    return f" {_NEAREST[finding.subject]}" if finding.subject in _NEAREST else ""
