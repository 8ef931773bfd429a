"""What a benchmark found: a number with its interval, what was wanted of it, and how both are shown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from twinlens.measurement.machine.contention import read_cpu, shares
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.units import show

Verdict = Literal["met", "missed", "open"]
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. `target` is what `estimate` should be at `wants`; None where nothing was promised."""

    what: str
    estimate: Estimate
    target: float | None = None
    wants: Literal["at most", "at least"] = "at most"
    note: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """Whether the target is kept. "open" where the interval holds the target: this run cannot tell."""
        one = self.estimate
        if self.target is None or one.value is None:
            return None
        sign = 1.0 if self.wants == "at most" else -1.0
        ends = [sign * end for end in (one.low, one.high) if end is not None] or [sign * one.value]
        if max(ends) <= sign * self.target:
            return "met"
        return "missed" if min(ends) > sign * self.target else "open"


@dataclass(slots=True)
class Neighbours:
    """What else used the processors meanwhile: `foreign` is a ratio of all of them, None before the end."""

    load_before: float = field(default_factory=lambda: os.getloadavg()[0])
    foreign: float | None = None


@contextmanager
def watched() -> Iterator[Neighbours]:
    """Watch the neighbours: a ratio taken beside a busy one says so. Children must have been waited for."""
    seen, before = Neighbours(), read_cpu()
    yield seen
    found = shares(before, read_cpu())
    seen.foreign = found[2] if found else None


def with_neighbours(findings: Sequence[Finding], seen: Neighbours) -> list[Finding]:
    """The findings, each saying how much of the processors others used while it was taken."""
    said = "others' processor use unknown" if seen.foreign is None else f"others used {seen.foreign:.0%} of the CPUs"
    return [replace(found, note=f"{found.note}; {said}" if found.note else said) for found in findings]


def print_findings(title: str, findings: Sequence[Finding], notes: Sequence[str] = ()) -> None:
    """A table on stdout and the notes below it."""
    console = Console(width=None if os.isatty(1) else 150, highlight=False)
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("what", "value", "interval", "n", "target", "", "note"):
        table.add_column(name, justify="right" if name in ("value", "interval", "n") else "left", overflow="fold")
    for found in findings:
        table.add_row(*cells(found))
    console.print(table)
    for note in notes:
        console.print(note, markup=False)
    console.print()


def cells(found: Finding) -> tuple[str, ...]:
    """What, value, interval, n, target, verdict and note, as text."""
    one = found.estimate
    interval = "" if one.low is None else f"{show(one.low, one.unit)} – {show(one.high, one.unit)}"
    target = "" if found.target is None else f"{found.wants} {show(found.target, one.unit)}"
    value = show(one.value, one.unit, 4) if one.value is not None else f"none: {one.reason}"
    return (found.what, value, interval, str(one.n or ""), target, found.verdict or "", found.note)


def save(name: str, findings: Sequence[Finding], notes: Sequence[str] = ()) -> Path:
    """Write the findings as benchmarks/results/NAME.json, with what they were taken on. Returns the path."""
    RESULTS.mkdir(exist_ok=True)
    rows = [
        {
            "what": found.what,
            "estimate": encode(found.estimate),
            "target": found.target,
            "wants": found.wants if found.target is not None else None,
            "verdict": found.verdict,
            "note": found.note,
        }
        for found in findings
    ]
    path = RESULTS / f"{name}.json"
    data = {"benchmark": name, "taken_on": taken_on(), "findings": rows, "notes": list(notes)}
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def taken_on() -> dict[str, Any]:
    """The machine and the versions, for a reader who has only the file."""
    from importlib.metadata import version

    from twinlens.measurement.machine.host import capture_host

    facts = capture_host("cpu")
    names = ("host.cpu.model", "host.cpu.physical_cores", "accelerator.product")
    host = {name: facts[name].value for name in names if name in facts}
    packages = {name: version(name) for name in ("twinlens", "torch", "transformers", "numpy", "pyarrow")}
    return {"system": platform.platform(), "python": platform.python_version()} | host | packages
