"""`tl.plan`: the verbs of `twinlens plan` as functions, each loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinlens.api.plan.calibrate import calibrate, constants
    from twinlens.api.plan.capacity import capacity
    from twinlens.api.plan.check import check
    from twinlens.api.plan.checkpoint import checkpoint
    from twinlens.api.plan.choose import choose
    from twinlens.api.plan.cost import cost
    from twinlens.api.plan.fit import fit
    from twinlens.api.plan.method import method
    from twinlens.api.plan.model import model
    from twinlens.api.plan.quotes import quotes
    from twinlens.api.plan.roi import roi

__all__ = [
    "calibrate",
    "capacity",
    "check",
    "checkpoint",
    "choose",
    "constants",
    "cost",
    "fit",
    "method",
    "model",
    "quotes",
    "roi",
]

VERBS = ("fit", "cost", "choose", "capacity", "roi", "calibrate", "check", "checkpoint", "method", "model", "quotes")
"""The verbs in the order of the command line; each stands in the file of its name."""


def functions() -> tuple[Any, ...]:
    """All of them, in that order."""
    return tuple(map(__getattr__, VERBS))


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'twinlens.plan' has no attribute {name!r}")
    found = getattr(import_module(f"twinlens.api.plan.{'calibrate' if name == 'constants' else name}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
