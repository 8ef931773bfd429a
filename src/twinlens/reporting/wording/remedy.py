"""Remedies of a verdict in words, without those that the run has in use already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import numbers


@dataclass(frozen=True, slots=True)
class _Remedy:
    """`key`: as in `diagnosis/in_use.py`. `further`: what is left of it where it is in use; None: nothing."""

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


def remedy_of(finding: Finding) -> str | None:
    """Advice on a verdict of a run that has some of its remedies in use; None where it has none of them."""
    tried = finding.numbers.get("tried")
    remedies = _REMEDIES.get(finding.code)
    if remedies is None or not isinstance(tried, Mapping) or not any(each.key in tried for each in remedies):
        return None
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


def _beside(finding: Finding) -> str:
    path, before, after, ranked = numbers(finding, "path", "from", "to", "ranked")
    ratio = finding.evidence["ratio"]
    interval = f" ({bounds})" if (bounds := display.factor_bounds(ratio)) else ""
    what = f"{clean(path, 60)} {clean(after, 30)} instead of {clean(before, 30)}"
    return f"{what}: {display.factor(ratio)}{interval}{'' if ranked else ', not valid'}"


CLAUSES = {"already-tried": _beside}
SENTENCES = {"already-tried": lambda finding: f"Tried beside it: {_beside(finding)}."}
