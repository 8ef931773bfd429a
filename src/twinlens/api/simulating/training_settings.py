"""Settings of a simulated training: how long, how many ranks, saves and failures, a pipeline, and what is a change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from twinlens.api.plan.reading.amount import seconds_of, share_of, trained_tokens_of
from twinlens.api.simulating.settings import UNREADABLE
from twinlens.errors import BadInput, nearest
from twinlens.simulation.training.course import Constant
from twinlens.simulation.training.pipeline import Order
from twinlens.system.document import toml_value

MOST_STEPS = 5_000_000
FACTORS = ("bandwidth", "compute", "link", "overhead")
"""What of a modelled machine may be so many times as fast."""
_CHANGES = (
    "device", "ranks", "tensor", "pipeline", "parts", "schedule", "microbatches", "slow", "jitter", "save_every",
)  # fmt: skip
_FAILURES = ("mtbf", "device_mtbf")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """`spec`: as `--set` of a spec. `said`: by name, as read. `factors`: how many times as fast. `changed`: words that
    change the machine, its division or the saves, as they were said; the others say what the training is."""

    spec: tuple[str, ...] = ()
    said: dict[str, Any] = field(default_factory=dict)
    factors: dict[str, float] = field(default_factory=dict)
    precision: str | None = None
    changed: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """The value of a setting; None where it was not said."""
        return self.said.get(name)

    @property
    def without_change(self) -> TrainingSettings:
        """The same without its changes. Failures are one where they are the only one."""
        others = self.factors or self.precision or any(name in self.said for name in _CHANGES)
        left = _CHANGES if others else _FAILURES
        return replace(self, said={name: value for name, value in self.said.items() if name not in left}, factors={},
                       precision=None, changed=())  # fmt: skip


def training_settings(words: Iterable[str]) -> TrainingSettings:
    """Each word as what it sets. Raises BadInput (TL250); what is of the spec is read with the spec."""
    spec, said, factors, precision, changed = list[str](), dict[str, Any](), dict[str, float](), None, list[str]()
    failures = list[str]()
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if "*" in name and not equals:
            of, factor = _factor(word)
            factors[of] = factor
            changed.append(word)
        elif not equals or not name or not value:
            raise BadInput(f"--set wants NAME=VALUE, or bandwidth*2, not {word[:60]!r}", code=UNREADABLE)
        elif name == "precision":
            precision = value
            changed.append(word)
        elif name in _READERS:
            said[name] = _READERS[name](name, value)
            changed += [word] if name in _CHANGES else []
            failures += [word] if name in _FAILURES else []
        elif "." in name:
            spec.append(word)
        else:
            raise BadInput(f"training in virtual time has no setting {name[:40]!r}; {nearest(name, _READERS)}",
                           code=UNREADABLE)  # fmt: skip
    if "steps" in said and "tokens" in said:
        raise BadInput("--set says how long training is twice, in steps and in tokens; leave one out", code=UNREADABLE)
    if "mtbf" in said and "device_mtbf" in said:
        raise BadInput("--set says the time between failures twice, mtbf of the job and device_mtbf; leave one out",
                       code=UNREADABLE)  # fmt: skip
    return TrainingSettings(tuple(spec), said, factors, precision, tuple(changed or failures))


def _factor(word: str) -> tuple[str, float]:
    of, _, times = word.partition("*")
    if (name := of.strip()) not in FACTORS:
        raise BadInput(f"{name[:40]!r} has no factor; {nearest(name, FACTORS)}", code=UNREADABLE)
    return name, above_0(name, times.strip())


def above_0(name: str, value: str, least: float = 0.0) -> float:
    """A number above 0, or from `least` on. Raises BadInput (TL250)."""
    found = toml_value(value)
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    if not is_number or not 0 < found <= 1e6 or found < least:
        bound = f"from {least:g} on" if least else "above 0"
        raise BadInput(f"{name} is a number {bound}, not {value[:40]!r}", code=UNREADABLE)
    return float(found)


def _slow(name: str, value: str) -> float:
    return above_0(name, value, 1.0)


def _count(most: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        plain = value.replace(",", "").replace("_", "")
        if not plain.isdecimal() or not 1 <= int(plain[:12]) <= most:
            raise BadInput(f"{name} is a whole number from 1 to {most:,}, not {value[:40]!r}", code=UNREADABLE)
        return int(plain)

    return read


def seconds(name: str, value: str) -> float:
    """A time with its unit, in seconds. Raises BadInput (TL250)."""
    try:
        return seconds_of(name, value)
    except BadInput:
        raise BadInput(f"{name} is a time above 0 with its unit, as in {name}=8h or {name}=40s, not {value[:40]!r}",
                       code=UNREADABLE) from None  # fmt: skip


def _span(name: str, value: str) -> Constant:
    """ "8h", or a span "6h..10h", whose ends are those of its interval."""
    low, dots, high = value.partition("..")
    ends = seconds(name, low), seconds(name, high if dots else low)
    if ends[0] > ends[1]:
        raise BadInput(f"{name} {value[:40]!r} ends below its start; write {name}=6h..10h", code=UNREADABLE)
    return Constant(sum(ends) / 2, *ends) if dots else Constant(ends[0])


def _tokens(name: str, value: str) -> float:
    try:
        return trained_tokens_of(name, value)
    except BadInput:
        raise BadInput(f"tokens are a number from 1 on, as in tokens=300B or tokens=15T, not {value[:40]!r}",
                       code=UNREADABLE) from None  # fmt: skip


def _share(name: str, value: str) -> float:
    try:
        return share_of(name, value)
    except BadInput:
        raise BadInput(f"{name} is a share such as 5% or 0.05, not {value[:40]!r}", code=UNREADABLE) from None


def _order(name: str, value: str) -> str:
    if value not in get_args(Order):
        raise BadInput(f"no schedule of a pipeline is called {value[:40]!r}; {nearest(value, get_args(Order))}",
                       code=UNREADABLE)  # fmt: skip
    return value


def _word(name: str, value: str) -> str:
    return value


_READERS: dict[str, Callable[[str, str], Any]] = {
    "steps": _count(MOST_STEPS), "tokens": _tokens, "ranks": _count(100_000), "tensor": _count(1024),
    "pipeline": _count(1024), "parts": _count(64), "microbatches": _count(100_000), "schedule": _order,
    "slow": _slow, "jitter": _share, "save_every": _count(MOST_STEPS), "save": _span, "restart": _span, "mtbf": _span,
    "device_mtbf": _span, "device": _word,
}  # fmt: skip
SETTINGS = tuple(_READERS)
