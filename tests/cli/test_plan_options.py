"""Options of `twinlens plan` and keywords of `tl.plan` are the same, and an unknown one is refused by name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import twinlens as tl
from twinlens.api.plan import capacity, check, cost, fit, method, roi, steps
from twinlens.cli.plan import group
from twinlens.cli.plan.told import words_of
from twinlens.errors import BadInput

OTHERS: dict[str, tuple[str, ...]] = {
    "cost": (*cost.MONEY, *cost.OPTIONS),
    "roi": (*roi.MONEY, *roi.OPTIONS),
    "check": check.OPTIONS,
    "method": method.COUNTS,
    "fit": (*fit.OF_SERVING, *fit.OF_TRAINING),
    "capacity": (*capacity.OF_SERVING, *steps.OF_TRAINING),
}
"""Keywords of each verb beside those in its signature."""


@pytest.mark.parametrize("verb", ["capacity", "check", "choose", "cost", "fit", "method", "model", "roi"])
def test_every_option_of_a_verb_is_a_keyword_of_its_function(verb: str) -> None:
    asked = words_of(dict.fromkeys(inspect.signature(getattr(group, verb)).parameters))
    known = {*inspect.signature(getattr(tl.plan, verb)).parameters, *OTHERS.get(verb, ())}
    assert set(asked) <= known


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("cost", {"throughput": "4 requests/s", "rent": "3 USD/h", "retires": 0.03}),
        ("roi", {"buy": "37500 USD", "rent": "3 USD/h", "discuont": 0.08}),
        ("check", {"model": "8B", "device": "H100", "vlots": 230}),
        ("method", {"model": "8B", "device": "H100", "epoch": 3}),
    ],
)
def test_an_option_that_is_none_is_not_left_out_in_silence(verb: str, words: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=f"plan {verb} has no option '{list(words)[-1]}'; did you mean"):
        getattr(tl.plan, verb)(**words)
