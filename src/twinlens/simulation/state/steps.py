"""Ends of an engine's steps: kept as stretches in which seconds grow evenly, written out when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from twinlens.simulation.noise import Factors
from twinlens.simulation.work import Floats


@dataclass(slots=True)
class StepEnds:
    """Stretches of steps, five numbers each: start, steps, seconds of the first, growth a step, place of its factor.

    The place is -1 where the seconds are those that passed, with their noise. `factors`: of the engine, where it has
    noise. `forgotten`: steps in front that nobody asks for any more.
    """

    factors: Factors | None
    stretches: list[float] = field(default_factory=list)
    forgotten: int = 0

    def forget(self, until: int) -> None:
        """Nobody asks for steps before this one any more: stretches that end there are forgotten, and their noise."""
        through = np.cumsum(self.stretches[1::5], dtype=np.int64)
        gone = int(np.searchsorted(through, until - self.forgotten, side="right"))
        if gone:
            self.forgotten += int(through[gone - 1])
            del self.stretches[: 5 * gone]
        if self.factors is not None:
            places = (each for each in self.stretches[4::5] if each >= 0)
            self.factors.forget(int(next(places, self.factors.place)))

    def written(self) -> Floats:
        """End of each step that is not forgotten. Shape: (steps,). Seconds."""
        table = np.array(self.stretches).reshape(-1, 5)
        counts = table[:, 1].astype(np.int64)
        start_s, first_s, growth_s, place = (np.repeat(table[:, column], counts) for column in (0, 2, 3, 4))
        through = np.arange(len(start_s)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        ends_s: Floats = start_s + through * first_s + growth_s * through * (through - 1) / 2
        if self.factors is None:
            return ends_s
        factors, moments = self.factors.running_sums()
        at = np.where(place < 0, 0, place - self.factors.forgotten).astype(np.int64)
        size = factors.shape[1]
        buffer, begin = np.divmod(at, size - 1)
        end = np.minimum(begin + through, size - 1)
        summed = factors[buffer, end] - factors[buffer, begin]
        moment = moments[buffer, end] - moments[buffer, begin] - begin * summed
        noisy_s: Floats = start_s + first_s * summed + growth_s * moment
        return np.where(place < 0, ends_s, noisy_s)
