"""Memory that a run measured, as factors on the arithmetic: a part of a plan moves as that part of the run did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlens.planning.figure import Figure, Input

SAME = {"scores": "activations"}
"""Parts that a run measures together with another."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One part of a run: what it measured over what the arithmetic says of it."""

    part: str
    times: float
    measured_bytes: float
    run: str


def measured_parts(modelled: Sequence[Figure], measured: Mapping[str, float], run: str) -> tuple[Measured, ...]:
    """Factors of the parts that the run measured. `measured`: bytes by name, and "peak" of all together.

    What the peak has beyond the parts that were measured, and those that were not, is the runtime's.
    """
    known = {each.name: float(each.value) for each in modelled if each.value}
    together = {name: value + sum(known.get(other, 0.0) for other, one in SAME.items() if one == name)
                for name, value in known.items() if name not in SAME}  # fmt: skip
    found = [
        Measured(name, measured[name] / value, measured[name], run)
        for name, value in together.items()
        if measured.get(name)
    ]
    rest = measured.get("peak", 0.0) - sum(measured.get(name, value) for name, value in together.items()
                                           if name != "runtime")  # fmt: skip
    if rest > 0 and known.get("runtime"):
        found.append(Measured("runtime", rest / known["runtime"], rest, run))
    return tuple(found)


def corrected(parts: Iterable[Figure], like: Sequence[Measured]) -> tuple[Figure, ...]:
    """The parts, each times the factor of the run, which the arithmetic then shows."""
    by_part = {each.part: each for each in like}
    return tuple(_times(part, by_part.get(SAME.get(part.name, part.name))) for part in parts)


def _times(part: Figure, own: Measured | None) -> Figure:
    if own is None or part.value is None:
        return part
    source = f"{own.run} measured {own.measured_bytes / 1e9:.4g} GB"
    return Figure(part.name, float(part.value) * own.times, "bytes", "{0} × {1}",
                  (part, Input("measured-over-modelled", own.times, "1", source)), source=source)  # fmt: skip
