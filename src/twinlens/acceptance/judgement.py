"""A judgement of a burn-in as data: a ruling on each criterion, the verdict, and what the test could not have seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from twinlens.acceptance.criteria import Criterion
from twinlens.acceptance.window import BurnIn, Window
from twinlens.record.codec import OPTIONAL
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding

Standing = Literal["met", "met with a note", "not met", "insufficient", "not applicable"]
Verdict = Literal["accept", "accept with notes", "quarantine", "reject", "insufficient"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """One criterion and how it stands.

    `value`: the figure that decided, in the criterion's unit, of the worst workload or device; absent with its reason
    where there is none. `why`: what decided, as a code with numbers. `devices`, `workloads`, `windows`: the evidence,
    worst first; `windows` are numbers of windows.
    """

    criterion: Criterion
    standing: Standing
    value: Estimate
    why: Finding
    devices: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    workloads: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    windows: tuple[int, ...] = field(default=(), metadata=OPTIONAL)


@dataclass(frozen=True, slots=True)
class Judgement:
    """`rulings`: in the order of the criteria. `decided`: the criteria that decided the verdict. `unseen`: what a test
    of this length and these counters could not have shown. `per_workload`: figures by workload and name ("rate",
    "retention", "drift", and "over_last" beside an earlier burn-in). `marks`: the criteria that speak against a window,
    by its number. `bounds`: rates of what did not happen."""

    verdict: Verdict
    rulings: tuple[Ruling, ...]
    decided: tuple[str, ...] = ()
    unseen: tuple[Finding, ...] = ()
    per_workload: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    marks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    bounds: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BurnInResult:
    """A burn-in as far as it went, with its judgement. `stopped`: why before its planned time, "" where it was not.
    `before`: facts of the last acceptance where one was given (`against.Against` by workload)."""

    folder: str
    head: BurnIn
    windows: tuple[Window, ...]
    judgement: Judgement
    stopped: str = ""

    def __json__(self) -> dict[str, Any]:
        """A plain mapping, without the windows: those are in the folder."""
        return {
            "folder": self.folder,
            "verdict": self.judgement.verdict,
            "windows": len(self.windows),
            "stopped": self.stopped,
            "asked": self.head.asked,
            "machine": self.head.machine,
            "judgement": self.judgement,
        }
