"""Compatibility of model, precision, runtime, driver and device, by a dated table; what it lacks is not known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from twinlens.errors import BadInput
from twinlens.spec.compatibility import Axis, Rule, Verdict
from twinlens.spec.device import Device

NEEDS_RUNTIME = ("runtime-device", "runtime-precision", "runtime-model", "driver-runtime")


@dataclass(frozen=True, slots=True)
class Stack:
    """What is to run together. `runtime` and `driver` None: nobody said."""

    model: str
    precision: str
    device: Device
    runtime: str | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """One axis of a stack. `says`, `source` and `date`: of the row that decided; "" where none did."""

    axis: str
    verdict: Verdict
    says: str = ""
    driver_from: str | None = None
    source: str = ""
    date: str = ""


def rulings(stack: Stack, rules: Sequence[Rule]) -> tuple[Ruling, ...]:
    """One for each axis that was asked about, the first row that matches deciding. Raises BadInput for a driver."""
    return tuple(_rulings(stack, rules))


def _rulings(stack: Stack, rules: Sequence[Rule]) -> Iterator[Ruling]:
    for axis in get_args(Axis):
        if stack.runtime is None and axis in NEEDS_RUNTIME:
            continue
        row = next((each for each in rules if each.axis == axis and _holds(each, stack)), None)
        if row is None:
            yield Ruling(axis, "unknown")
        else:
            verdict = row.verdict if row.driver_from is None else _of_driver(stack.driver, row.driver_from)
            yield Ruling(axis, verdict, row.says, row.driver_from, row.source, row.date)


def _holds(row: Rule, stack: Stack) -> bool:
    return row.holds(stack.device, stack.runtime, stack.precision, stack.model)


def _of_driver(driver: str | None, oldest: str) -> Verdict:
    """Unknown without a driver, and where only the beginning of its version was said: 575 of 575.51.03."""
    if driver is None:
        return "unknown"
    said, needed = version(driver), version(oldest)
    if said == needed[: len(said)] and len(said) < len(needed):
        return "unknown"
    return "yes" if said >= needed else "no"


def version(text: str) -> tuple[int, ...]:
    """ "570.124.06" as numbers. Raises BadInput (TL231) for what is none."""
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6}){0,3}", text.strip()):
        raise BadInput(f"--driver {text[:40]!r} is no version; write --driver 570.124", code="TL231")
    return tuple(int(part) for part in text.strip().split("."))
