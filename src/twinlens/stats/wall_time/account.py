"""The account of a training run's wall time: every nanosecond in one part, and the parts add up to the whole."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.record.step import Steps

PARTS = ("useful", "startup", "data", "checkpoint", "restart", "repeat", "evaluation", "other")
"""In the order in which they are told. `useful`: steps that were kept, without data and saves in them."""
_STARTING = ("compile", "examined", "starting")


@dataclass(frozen=True, slots=True)
class WallTime:
    """Nanoseconds by part, from the start to the end of the last row. `steps`: useful ones, each counted once."""

    parts_ns: dict[str, int]
    steps: int

    @property
    def wall_ns(self) -> int:
        return sum(self.parts_ns.values())


def wall_time(steps: Steps, startup_ns: int) -> WallTime:
    """The account of a run: `startup_ns` before the zero of its rows, then every row and every gap between rows.

    A step that compiles is part of the start-up; one that is done again, or whose update was skipped, is no useful one.
    What a row shares with the row before it counts once.
    """
    parts = dict.fromkeys(PARTS, 0) | {"startup": max(0, startup_ns)}
    useful, at_ns = 0, 0
    rows = zip(steps.kind, steps.tag, steps.begin_ns.tolist(), steps.end_ns.tolist(), strict=True)
    for place, (kind, tag, begin_ns, end_ns) in enumerate(rows):
        parts["other"] += max(0, begin_ns - at_ns)
        left_ns = max(0, end_ns - max(begin_ns, at_ns))
        at_ns = max(at_ns, end_ns)
        whole = _whole_row(kind, tag)
        useful += kind == "step" and tag not in ("repeat", "skipped")
        for phase in ("checkpoint", "data") if whole in ("useful", "repeat") else ():
            if whole == "repeat" and phase == "data":
                continue
            known = steps.phases_ns[phase][place]
            taken = min(left_ns, int(known)) if known == known else 0  # NaN: there is none
            parts[phase] += taken
            left_ns -= taken
        parts[whole] += left_ns
    return WallTime(parts, useful)


def _whole_row(kind: str, tag: str | None) -> str:
    """The part that a row belongs to, but for its data and its save."""
    if kind == "recover":
        return "restart"
    if kind == "evaluate":
        return "evaluation"
    if kind == "between":
        return "other"
    if tag in _STARTING:
        return "startup"
    return {"repeat": "repeat", "skipped": "other"}.get(tag or "", "useful")
