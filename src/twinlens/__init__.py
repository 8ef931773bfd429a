"""Twinlens: two lenses on AI performance, training and inference, never averaged.

    import twinlens as tl
    study = tl.load("pretrain.toml")
    outcome = tl.measure(study.at(precision="bf16"))
    tl.summary(outcome.runs[0]).metrics["training_tokens_per_s"]
    tl.report(outcome.runs, to="report.html")

Names are loaded when they are first used: `import twinlens` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.api import check, demo, explain, measure, peers, probe, read, report, show, summary
    from twinlens.record.estimate import Estimate
    from twinlens.record.run import Run
    from twinlens.spec.load import load, parse
    from twinlens.spec.study import Study

_HOME = {
    "Estimate": "twinlens.record.estimate",
    "Run": "twinlens.record.run",
    "Study": "twinlens.spec.study",
    "load": "twinlens.spec.load",
    "parse": "twinlens.spec.load",
    **dict.fromkeys(
        ("check", "demo", "explain", "list", "measure", "peers", "probe", "read", "report", "show", "summary"),
        "twinlens.api",
    ),
}

# `list` is a verb here too, but no name that `import *` should put in the place of Python's own.
__all__ = [
    "Estimate",
    "Run",
    "Study",
    "__version__",
    "check",
    "demo",
    "explain",
    "load",
    "measure",
    "parse",
    "peers",
    "probe",
    "read",
    "report",
    "show",
    "summary",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'twinlens' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
