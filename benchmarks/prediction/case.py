"""One measured number of a public table: as the table has it, and as a question to the model."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from twinlens.spec.device import Device

Row = dict[str, str]
EVERYTHING = 4096.0
"""Requests that wait at a time where a table says "offline": all that an engine takes, and more."""


@dataclass(frozen=True, slots=True)
class Case:
    """One measured number and the question that it answers. Times in s, rates in tokens/s, memory in bytes."""

    kind: str
    value: float
    file: str
    model: str
    card: Device
    devices: int
    precision: str
    engine: str
    layout: dict[str, float] = field(default_factory=dict)
    batch: float = 1.0
    prompt: float = 1.0
    answer: float = 1.0
    more: dict[str, object] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that gets no prediction, and why."""

    why: str
    file: str
    metric: str
    line: int = 0


class No(Exception):
    """A reason not to predict a row."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table, of which metric and device are known. `value` in the row's own unit."""

    row: Row
    file: str
    line: int
    kind: str
    value: float
    card: Device

    def cell(self, name: str) -> str:
        """A cell in lower case; "" where the table has no such column."""
        return self.row.get(name, "").lower()

    def number(self, name: str) -> float | None:
        """The first number of a cell; None without one."""
        return number(self.row.get(name, ""))

    def case(self, kind: str, value: float, model: str, devices: int, precision: str, engine: str, **more: Any) -> Case:
        return Case(kind, value, self.file, model, self.card, devices, precision, engine, line=self.line, **more)


def number(text: str) -> float | None:
    """The first number of a cell; None without one."""
    found = re.search(r"-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?", text)
    return float(found.group().replace(",", "")) if found else None


def count(text: str, default: int = 1) -> int:
    """The first number of a cell as a count of at least 1; `default` without one."""
    found = number(text)
    return default if found is None else max(1, int(found))
