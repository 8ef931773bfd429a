"""Energy of simulated engines: watts that each draws whether busy or not, and joules of every step and every token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twinlens.simulation.law import Origin

if TYPE_CHECKING:
    from twinlens.simulation.points.played import Played

UNSAID = "the law says no power; a table may: idle_w = 95, step_j = 2.1"
OTHER = "the power is that of the machine as it was"


@dataclass(frozen=True, slots=True)
class Power:
    """`idle_w`: watts of one engine, busy or not. `step_j`: joules of a step beyond that, `token_j` of each token that
    it computes, of a prompt or of an answer."""

    idle_w: float
    step_j: float
    token_j: float = 0.0
    origin: Origin = "quoted"

    def joules(self, span_s: float, engines: int, steps: float, tokens: float) -> float:
        """Of so many engines that are there for `span_s` each, and together make so many steps and tokens."""
        return self.idle_w * span_s * engines + self.step_j * steps + self.token_j * tokens


@dataclass(frozen=True, slots=True)
class Powers:
    """The power of an engine, and draws of it that are as likely; where it is not known, the reason `absent`."""

    power: Power | None = None
    draws: tuple[Power, ...] = ()
    absent: str = UNSAID

    def drawn(self, place: int, of: int) -> Power | None:
        """That of repeat `place` [0, of): spread evenly over the draws."""
        return self.draws[int((place + 0.5) / of * len(self.draws))] if self.draws else self.power


def energy_of(played: Played, power: Power, engines: int) -> dict[str, float]:
    """Figures of one simulation by the id of the metric: joules of an output token and of a request, watts of all.

    Until the last step has ended: an engine that waits draws its idle watts.
    """
    output = played.table.column("output_tokens").to_numpy()
    prompts = played.table.column("input_tokens").to_numpy()[output > 0]
    made, done = float(output.sum()), int((output > 0).sum())
    spent_j = power.joules(
        played.span_s, engines, played.steps, float(prompts.sum()) - played.cached_tokens + made
    )  # fmt: skip
    return {
        "energy_per_output_token_j": spent_j / made if made else np.nan,
        "energy_per_request_j": spent_j / done if done else np.nan,
        "mean_power_w": spent_j / played.span_s if played.span_s else np.nan,
    }
