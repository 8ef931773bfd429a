"""The answer to whether work fits: where it was asked for, where else, what would change it, and how far it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinlens.planning.figure import Figure
from twinlens.planning.fit.placement import Placement
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.training import Training
from twinlens.record.codec import encode
from twinlens.record.finding import Finding


@dataclass(frozen=True, slots=True)
class Fit:
    """`asked`: on the device that was named, else None. `others`: the fewest of each device that do.

    `changes`: what flips the answer, one thing at a time. `most`: the largest number of users or sequences, and tokens.
    `legal`: parallel degrees that divide the model.
    """

    plan: Serving | Training
    asked: Placement | None
    others: tuple[Placement, ...]
    changes: tuple[Finding, ...] = ()
    most: tuple[Figure, ...] = ()
    legal: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def fits(self) -> bool | None:
        return self.asked.fits if self.asked else (any(each.fits for each in self.others) or None)

    def assumptions(self) -> tuple[Finding, ...]:
        """All that was taken for granted, each once."""
        shown = self.asked or next(iter(self.others), None)
        return () if shown is None else (*shown.needed.all_assumptions(), *shown.usable.assumptions)

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        return {
            **encode(self.plan),
            "fits": self.fits,
            "close": None if self.asked is None else self.asked.is_close,
            "asked": self.asked,
            "others": self.others,
            "changes": self.changes,
            "most": self.most,
            "legal": dict(self.legal),
            "assumptions": self.assumptions(),
        }


def change(what: str, **numbers: Any) -> Finding:
    """One thing that, changed alone, makes it fit."""
    return Finding("plan-change", "notes", what, numbers)
