"""Fitted constants: a value for each, and factors for the engine, the architecture and the format of a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Values = Any
"""One attribute per constant: numbers, or arrays with an entry per question."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Where a constant is expected before any data, and how far (as a standard deviation of its logarithm)."""

    value: float
    spread: float


@dataclass(frozen=True, slots=True)
class Constants:
    """`base` and the factors of groups ("engine:vllm", "arch:Hopper"), all as natural logarithms."""

    base: Mapping[str, float]
    factors: Mapping[str, Mapping[str, float]]

    def logs(self, groups: Sequence[Sequence[str]], names: Sequence[str]) -> Array:
        """Logarithms, one row per question and one column per name."""
        table = np.array([[self.base[name] for name in names]] * len(groups))
        column = {name: i for i, name in enumerate(names)}
        for row, labels in enumerate(groups):
            for label in labels:
                for name, factor in self.factors.get(label, {}).items():
                    table[row, column[name]] += factor
        return table

    def at(self, groups: Sequence[str]) -> Values:
        """The constants for one question."""
        row = self.logs([groups], list(self.base))[0]
        return SimpleNamespace(**{name: float(np.exp(value)) for name, value in zip(self.base, row, strict=True)})


def values(names: Sequence[str], logs: Array) -> Values:
    """Columns of logarithms as attributes."""
    return SimpleNamespace(**{name: np.exp(logs[:, i]) for i, name in enumerate(names)})
