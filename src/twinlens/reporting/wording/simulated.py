"""Sentences on simulated runs that take logic."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean, join_names

_SHOWN = 4


def lacking(finding: Finding) -> str:
    """ "not modelled: the network, graphs and 2 more": the first few, and how many more there are."""
    return "not modelled: " + join_names([clean(each, 80) for each in finding.numbers["not_modelled"]], _SHOWN)


def parts(finding: Finding) -> str:
    """ "prefill (0.92 ×), tail (1.31 ×)"."""
    pairs = zip(finding.numbers["parts"], finding.numbers["ratios"], strict=True)
    return join_names([f"{clean(part, 20)} ({ratio:.3g} ×)" for part, ratio in pairs])
