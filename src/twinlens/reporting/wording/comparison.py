"""Sentences on comparisons: whether two sides may be compared, what differs, and what a ratio can be attributed to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean, factor, factor_bounds, join_names
from twinlens.reporting.wording.number import number, numbers, percent, subject_of
from twinlens.units import BYTES, show

_MOST_FIELDS = 3
_NEAREST = {
    "workload": "Measure both with one spec.",
    "load": "Measure both at the same rate or concurrency.",
    "model": "Measure the same weights on both.",
    "protocol": "Measure both under one protocol.",
}


def _lens_differs(finding: Finding) -> str:
    a, b = numbers(finding, "a", "b")
    return (
        f"A is a run of {a} and B is a run of {b}. They do different work, in different units, and no ratio of the two "
        f"means anything. Compare training with training and inference with inference."
    )


def _precision_as_one(finding: Finding) -> str:
    return (
        f"Both sides call their precision {finding.subject!r}, which stands for different formats here: "
        f"{_fields(finding)}. They are two precisions, not one."
    )


def _same_runs(finding: Finding) -> str:
    runs = number(finding, "runs")
    return f"Both sides hold the same runs ({join_names(list(map(str, runs)), 3)}): that compares nothing."


def _must_match(finding: Finding) -> str:
    if finding.severity == "warns":
        return f"The {_differ(finding)}, so figures that depend on it are not compared: {_fields(finding)}."
    nearest = _NEAREST.get(finding.subject, "")
    return f"The {_differ(finding)}: {_fields(finding)}. {nearest}".strip()


def _several_differ(finding: Finding) -> str:
    things = number(finding, "things")
    joined = f"{', '.join(things[:-1])} and {things[-1]}"
    return f"{joined[:1].upper()}{joined[1:]} differ: a ratio is of all of them together, and of none alone."


def _one_differs(finding: Finding) -> str:
    return f"Only the {_differ(finding)} ({_fields(finding)}): a ratio can be attributed to it."


def _precision_compared(finding: Finding) -> str:
    a, b = numbers(finding, "a", "b")
    gates = [(letter, finding.numbers.get(f"{letter.lower()}_passes")) for letter in "AB"]
    told = [f"{letter} {'passes' if go else 'fails'} the fidelity gate" for letter, go in gates if go is not None]
    quality = f" ({', '.join(told)})" if told else ""
    return f"{a} and {b} are different products: read the quality of each beside its speed{quality}."


def _differs_too(finding: Finding) -> str:
    return f"The {_differ(finding)} too: {_fields(finding)}."


def _not_said(finding: Finding) -> str:
    sides, fields = numbers(finding, "sides", "fields")
    verb = "does" if len(sides) == 1 else "do"
    return f"{' and '.join(sides)} {verb} not say everything ({join_names(fields, 4)}): it may differ too."


def _limit_passed(finding: Finding) -> str:
    limit, name = numbers(finding, "limit", "name")
    ratio = finding.evidence["ratio"]
    size = f"{factor(ratio)} ({factor_bounds(ratio)})"
    whose = f"{subject_of(finding)} of {clean(name, 60)}"
    return f"{whose} is {size} that of the baseline, beyond the limit of {_change(limit)}."


def _undecided(finding: Finding, limit: float, name: str) -> str:
    ratio, needed, runs = finding.evidence["ratio"], finding.numbers.get("needed"), number(finding, "runs")
    where = (
        f"{subject_of(finding)} of {clean(name, 60)} is {factor(ratio)} ({factor_bounds(ratio)}) that of the baseline, "
        f"and the limit of {_change(limit)} lies in that interval."
    )
    if needed is None:
        return f"{where} The ratio is so close to the limit that more runs would not decide it."
    return f"{where} About {needed} runs a side would decide it (now {runs}), if the ratio stays."


def _limit_unjudged(finding: Finding) -> str:
    limit, name = numbers(finding, "limit", "name")
    if finding.numbers.get("missing"):
        folder = clean(str(finding.numbers.get("folder") or ""), 60)
        where = f"{folder} has no such point" if folder else "no other point is there to set beside it"
        return (
            f"Whether {subject_of(finding)} of {clean(name, 60)} keeps the limit of {_change(limit)} cannot be said: "
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
        f"Whether {subject_of(finding)} of {clean(name, 60)} keeps the limit of {_change(limit)} cannot be said: {why}."
    )


def _change(limit: float) -> str:
    return f"{'+' if limit > 0 else '−'}{percent(abs(limit))}"


def _differ(finding: Finding) -> str:
    """ "driver differs", "settings differ"."""
    return f"{finding.subject} differ{'' if finding.subject.endswith('s') else 's'}"


def _fields(finding: Finding) -> str:
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


def _peak_against_sustained(finding: Finding) -> str:
    side, name, label, other, other_name = numbers(finding, "side", "name", "label", "other", "other_name")
    return (
        f"{side} ({clean(name, 60)}) has no sustained rate ({label}), and {other} ({clean(other_name, 60)}) has one: "
        f"a burst or a peak is not set against a sustained window. "
        f"Measure {side} until it is steady (protocol.duration_s)."
    )


def _noise_floor(finding: Finding) -> str:
    share, times = numbers(finding, "share", "times")
    return (
        f"Noise floor of this machine in {subject_of(finding)}: two measurements of one thing lie within "
        f"{percent(share)} of each other 95 % of the time ({times} measurements). "
        "A smaller difference is not called one."
    )


def _floor_not_measured(finding: Finding) -> str:
    return (
        "Noise floor of this machine: not measured. Measure one spec at three times into one folder "
        "(twinlens measure SPEC --out noise) and give it: --noise noise."
    )


def _not_in_history(finding: Finding) -> str:
    return f"{subject_of(finding)} was not measured: {clean(str(number(finding, 'reason')), 200)}."


def _own_data(finding: Finding) -> str:
    sides = number(finding, "sides")
    whose = "A and B" if len(sides) > 1 else sides[0]
    return (
        f"Data, seed and weights of {whose} belong to a watched loop and are not recorded: whether both sides did "
        "the same work is not known here."
    )


SENTENCES = {
    "own-data": _own_data,
    "lens-differs": _lens_differs,
    "precision-as-one": _precision_as_one,
    "same-runs": _same_runs,
    "must-match": _must_match,
    "several-differ": _several_differ,
    "one-differs": _one_differs,
    "nothing-differs": lambda finding: "Nothing that is known differs: what is left is chance.",
    "precision-compared": _precision_compared,
    "differs-too": _differs_too,
    "limit-passed": _limit_passed,
    "limit-unjudged": _limit_unjudged,
    "not-said": _not_said,
    "not-readable": lambda finding: f"It cannot be read: {clean(str(number(finding, 'reason')), 300)}.",
    "peak-against-sustained": _peak_against_sustained,
    "noise-floor": _noise_floor,
    "floor-not-measured": _floor_not_measured,
    "not-in-history": _not_in_history,
}
