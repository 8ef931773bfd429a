"""Sentences on what was tried of a diagnosis, and on remedies that are in use already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twinlens.record.beside import GROWN
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import digits

_SAYS = {
    "confirmed": "the verdict stands",
    "refuted": "the verdict, or a ceiling that it rests on, is wrong, and it is withdrawn",
    "undecided": "the interval holds both answers, so try again on a quieter machine",
}


_OF_TWO_CAUSES = {
    "confirmed": "fixed costs bind: it is latency-bound",
    "refuted": "time grows with the work: the kernels are below their ceilings",
}


_NOT_GROWN = "the server did not compute the added requests together, so its batch was not doubled"


_QUOTED = " The ratio is as falsifier.json quotes it: the runs that gave it are not beside this one."


def falsifier(finding: Finding) -> str:
    path, before, after, ruling = numbers(finding, "path", "from", "to", "ruling")
    ratio = finding.evidence["ratio"]
    interval = display.factor_bounds(ratio) or "no interval"
    expected = _expected(finding)
    of_two = number(finding, "verdict") == "below-ceilings" and ruling in _OF_TWO_CAUSES
    says = _OF_TWO_CAUSES[ruling] if of_two else _SAYS[ruling]
    if (grown := finding.numbers.get("grown")) is not None:
        expected += f" with ×{digits(grown, 3)} the requests decoding together"
        says = _NOT_GROWN if ruling == "undecided" and grown < GROWN else says
    return (
        f"Tried: {clean(path, 60)} from {clean(before, 30)} to {clean(after, 30)} gave {display.factor(ratio)} "
        f"({interval}), {expected}: {'' if of_two else f'{_verdict(finding)} is {clean(ruling, 20)}; '}{says}."
        f"{_QUOTED if finding.numbers.get('quoted') else ''}"
    )


def _verdict(finding: Finding) -> str:
    return clean(number(finding, "verdict"), 40)


def _expected(finding: Finding) -> str:
    least, most = finding.numbers.get("at_least"), finding.numbers.get("at_most")
    if least is not None and most is not None:
        return f"and ×{digits(least, 3)} to ×{digits(most, 3)} was expected"
    if least is not None:
        return f"and ×{digits(least, 3)} or more was expected"
    return f"and at most ×{digits(most, 3)} was expected" if most is not None else "and nothing was expected"


@dataclass(frozen=True, slots=True)
class _Remedy:
    """`key`: as in `diagnosis/time_split.py`. `further`: what is left of it where it is in use; None: nothing."""

    key: str
    words: str
    further: str | None = None


_ANY = ""


_FIXED_COSTS = (
    _Remedy("compiled", "compile"),
    _Remedy(_ANY, "fuse small operations"),
    _Remedy("batch", "raise the batch", "raise the batch above {}"),
)


_REMEDIES = {
    "compute-bound": (
        _Remedy("narrow", "take a narrower format", "take a format narrower than {}"),
        _Remedy(_ANY, "do less arithmetic"),
        _Remedy("recompute", "", "keep activations instead of computing them again"),
    ),
    "bandwidth-bound": (
        _Remedy("narrow", "store weights narrower", "store weights narrower than {}"),
        _Remedy("batch", "take more sequences for each read of them", "take more than {} sequences for each read"),
        _Remedy("kv-format", "", "the KV cache is {} already"),
    ),
    "latency-bound": _FIXED_COSTS,
    "kernel-bound": (
        _Remedy("compiled", "compile"),
        _Remedy(_ANY, "try another runtime, or kernels made for these shapes and formats"),
    ),
    "interconnect-bound": (
        _Remedy(_ANY, "overlap communication with the backward pass"),
        _Remedy("accumulation", "accumulate gradients over several parts", "accumulate over more than {} parts"),
    ),
    "input-bound": (
        _Remedy("workers", "add workers that load data", "add more than {} workers"),
        _Remedy(_ANY, "prepare data beforehand"),
    ),
    "capacity-bound": (
        _Remedy(_ANY, "give the KV cache more memory"),
        _Remedy("kv-format", "store it in a narrower format", "store it narrower than {}"),
    ),
}


_TOGETHER = ("compiled", "narrow", "kv-format", "batch", "accumulation", "recompute", "threads", "workers")


def remedy(finding: Finding) -> str:
    """Advice on a verdict of a run that has some of its remedies in use; "" where it has none of them."""
    tried = finding.numbers.get("tried")
    remedies = _REMEDIES.get(finding.code)
    if remedies is None or not isinstance(tried, Mapping) or not any(each.key in tried for each in remedies):
        return ""
    left = [words for each in remedies if (words := _left(each, tried))]
    said = "; ".join(left) if left else "all that is known here is in use"
    return f"{said[:1].upper()}{said[1:]} (in use: {', '.join(_used(tried))})."


def _left(remedy: _Remedy, tried: Mapping[str, Any]) -> str:
    if remedy.key not in tried:
        return remedy.words
    return (remedy.further or "").format(clean(tried[remedy.key], 30))


def _used(tried: Mapping[str, Any]) -> list[str]:
    plain = {"compiled": "compiled graph", "recompute": "recomputed activations", "narrow": "{}", "kv-format": "KV {}"}
    words = {"batch": "batch {}", "accumulation": "{} accumulated parts", "threads": "all {} threads"}
    named = plain | words | {"workers": "{} workers"}
    return [named[key].format(clean(tried[key], 30)) for key in _TOGETHER if key in tried]


def beside(finding: Finding) -> str:
    path, before, after, ranked = numbers(finding, "path", "from", "to", "ranked")
    ratio = finding.evidence["ratio"]
    interval = f" ({bounds})" if (bounds := display.factor_bounds(ratio)) else ""
    what = f"{clean(path, 60)} {clean(after, 30)} instead of {clean(before, 30)}"
    return f"{what}: {display.factor(ratio)}{interval}{'' if ranked else ', not valid'}"
