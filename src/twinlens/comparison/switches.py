"""Switches of a server: the default against each change, in latency, throughput and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.comparison.effect import Effect
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import Comparison, compare
from twinlens.stats.paired.ratio import Rates

SHOWN = ("ttft_s_p50", "tpot_s_p50", "output_tokens_per_s", "peak_bytes")
"""What a switch is judged by: a column of the table for each."""


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """One point that differs from the default in some switches, and how it compares with it."""

    change: Mapping[str, Any]
    comparison: Comparison

    @property
    def effects(self) -> dict[str, Effect]:
        """The effect in each of `SHOWN` that both sides have."""
        return {each.metric: each for each in self.comparison.effects if each.metric in SHOWN}


def switch_rows(chosen: Sequence[Side], rates: Mapping[str, Rates]) -> tuple[SwitchRow, ...]:
    """A row for each point that has a default of the same model, machine and load; none where no points differ in a
    switch."""
    defaults = {_place(side): side for side in reversed(chosen) if side.group.switches == {}}
    changed = [side for side in chosen if side.group.switches and _place(side) in defaults]
    return tuple(SwitchRow(side.group.switches or {}, compare(defaults[_place(side)], side, rates)) for side in changed)


def _place(side: Side) -> tuple[str, ...]:
    group = side.group
    return side.lens, group.model, group.tag, str(sorted(group.point.items(), key=str))
