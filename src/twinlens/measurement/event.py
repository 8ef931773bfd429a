"""Events of a measurement, for whoever watches it: the run, its phase, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twinlens.measurement.take_rows import SayProgress
from twinlens.spec.study import RunSpec


@dataclass(frozen=True, slots=True)
class Event:
    """Where a study is: run `number` of `total` (from 1), what it does, how far it is (0-1), its rows so far."""

    number: int
    total: int
    run: RunSpec
    phrase: str
    share: float
    rows: int


Watch = Callable[[Event], None]


def telling(watch: Watch, number: int, total: int, spec: RunSpec) -> SayProgress:
    """Tells `watch` of one run: run `number` of `total`."""
    return lambda phrase, share, rows: watch(Event(number, total, spec, phrase, share, rows))


def telling_together(
    watch: Watch, planned: Sequence[RunSpec], specs: Sequence[RunSpec]
) -> Callable[[RunSpec, str, float, int], None]:
    """Tells `watch` of runs that go forward together, as if one came after another, as far as `share` of all goes.
    Before the first turn they are opened one after another, and which of them is said."""

    def tell(spec: RunSpec, phrase: str, share: float, rows: int) -> None:
        if share == 0 and rows == 0:
            phrase = f"opening {specs.index(spec) + 1} of {len(specs)} that take turns, {phrase}"
        place = min(int(share * len(specs)), len(specs) - 1)
        number = planned.index(specs[0]) + place + 1
        watch(Event(number, len(planned), spec, phrase, share * len(specs) - place, rows))

    return tell


def phrases(say: SayProgress) -> Callable[[str], None]:
    """Tells only what is done, before there are rows."""
    return lambda phrase: say(phrase, 0.0, 0)
