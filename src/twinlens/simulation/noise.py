"""Noise: steps are slower or faster than their law by factors that were measured, in spells as they were measured."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from twinlens.simulation.work import Floats

BUFFER = 4096
"""Factors drawn at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Factors on the seconds of a step, as measured one step after another. Shape: (steps,).

    `block`: successive factors drawn together, so that slow steps come in spells as they did.
    """

    factors: Floats
    seed: int = 0
    block: int = 64

    def stream(self, engine: int = 0) -> Factors:
        """The factors of one engine, the same for the same seed."""
        return Factors(self, np.random.default_rng((self.seed, engine)))


@dataclass(slots=True)
class Factors:
    """Factors of successive steps, without an end. `sums` and `moments`: running sums of factor, and of place × factor.

    Both begin with 0 and are of the present buffer, in which the next step has the place `at`.
    """

    noise: Noise
    generator: np.random.Generator
    at: int = BUFFER
    factors: list[float] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    drawn: list[list[float]] = field(default_factory=list)
    """Buffers so far, the present one last."""
    forgotten: int = 0
    """Factors in front of these buffers."""

    def next(self) -> float:
        """The factor of the next step."""
        self.fill()
        self.at += 1
        return self.factors[self.at - 1]

    def fill(self) -> None:
        """After it, the buffer has at least one more factor."""
        if self.at < len(self.factors):
            return
        measured, block = self.noise.factors, min(self.noise.block, len(self.noise.factors))
        starts = self.generator.integers(0, len(measured), -(-BUFFER // block))
        drawn = measured[(starts[:, None] + np.arange(block)) % len(measured)].ravel()[:BUFFER]
        self.at, self.factors = 0, drawn.tolist()
        self.drawn.append(self.factors)
        self.sums, self.moments = (each[0].tolist() for each in _running(drawn[None, :]))

    @property
    def place(self) -> int:
        """Place of the next factor among all."""
        return self.forgotten + (len(self.drawn) - 1) * BUFFER + self.at

    def forget(self, place: int) -> None:
        """Nobody asks for factors before this one any more: buffers that end there are forgotten."""
        gone = min(max(0, len(self.drawn) - 1), (place - self.forgotten) // BUFFER)
        del self.drawn[:gone]
        self.forgotten += gone * BUFFER

    def running_sums(self) -> tuple[Floats, Floats]:
        """Running sums of the buffers, as `sums` and `moments` have them. Shapes: (buffers, factors + 1)."""
        return _running(np.array(self.drawn).reshape(-1, BUFFER))


def _running(drawn: Floats) -> tuple[Floats, Floats]:
    """Running sums of factors, and of place × factor, each from 0. Shapes: (buffers, factors + 1)."""
    weighted = np.arange(drawn.shape[1]) * drawn
    sums, moments = (np.pad(np.cumsum(each, axis=1), ((0, 0), (1, 0))) for each in (drawn, weighted))
    return sums, moments
