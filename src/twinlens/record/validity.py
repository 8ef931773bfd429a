"""The state of a result: what may be said of a run, of a point over its repeats, or of a ratio."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

Validity = Literal["valid", "provisional", "not valid"]
"""`valid`: it was shown to be steady. `provisional`: nothing wrong was seen, but a change could hide; the interval is
widened by it. `not valid`: something wrong was seen, or too little to say anything."""


def weakest(states: Iterable[Validity]) -> Validity:
    """The weakest of some states; valid where there are none."""
    return max(states, key=get_args(Validity).index, default="valid")
