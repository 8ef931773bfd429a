"""`tl.plan`: the verbs of `twinlens plan` as functions."""

from __future__ import annotations

from typing import Any

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

VERBS: tuple[Any, ...] = (fit, cost, choose, capacity, roi, calibrate, check, checkpoint, method, model, quotes)
"""The verbs, in the order of the command line."""
