"""Steps of many ranks: each ends when the slowest rank has, and slow steps come in spells.

Not modelled: ranks that are slow together (a shared disk, a shared link), and ranks that recover what they waited.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from twinlens.errors import BadInput
from twinlens.simulation.work import Floats
from twinlens.theory.number import amount, rate
from twinlens.theory.waiting.slowest import counted, slowest_of_lognormal, slowest_of_values


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Seconds of a step of one rank, each step and each rank on its own."""

    mean_s: float
    cv: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Seconds of steps as they came, one after another, one array [steps] for each repeat that was measured.

    `ranks`: each value is the time of the slowest of so many. `block`: successive steps that are drawn together, so
    that slow steps come in spells as they did.
    """

    runs_s: tuple[Floats, ...]
    ranks: int = 1
    block: int = 1


StepTimes = Lognormal | Measured


def expected_s(times: StepTimes, factors: ArrayLike) -> float:
    """Expected seconds of a step. `factors` [ranks]: how much slower each rank is than the law; 1 where it is not."""
    if isinstance(times, Lognormal):
        return slowest_of_lognormal(times.mean_s, times.cv, factors)
    return slowest_of_values(np.concatenate(times.runs_s or (np.zeros(0),)), factors, times.ranks)


def drawn_s(times: StepTimes, factors: ArrayLike, steps: int, random: np.random.Generator) -> Floats:
    """Seconds of successive steps, [steps]. `factors` [ranks] as above. Raises BadInput.

    Of measured steps of several ranks, the ranks drawn are a multiple of theirs.
    """
    kinds, many = counted(factors)
    if isinstance(times, Lognormal):
        return _lognormal(times, kinds, many, steps, random)
    each = np.asarray(factors, dtype=np.float64).ravel()
    groups, left = divmod(each.size, times.ranks)
    if left:
        raise BadInput(
            f"steps measured with {times.ranks} ranks give steps of {times.ranks}, {2 * times.ranks}, … ranks, not of "
            f"{each.size}"
        )
    slowest = np.zeros(steps)
    for slow in each.reshape(groups, times.ranks).max(axis=1):
        one = times.runs_s[random.integers(len(times.runs_s))]
        np.maximum(slowest, slow * in_blocks(one, times.block, steps, random), out=slowest)
    return slowest


def in_blocks(series: Floats, block: int, size: int, random: np.random.Generator) -> Floats:
    """`size` values of a series [k], drawn in blocks of successive ones; behind its end the series begins again."""
    many = min(block, len(series))
    starts = random.integers(0, len(series), -(-size // many))
    places = (starts[:, None] + np.arange(many)) % len(series)
    return np.asarray(series[places.ravel()[:size]], dtype=np.float64)


def redrawn(times: StepTimes, random: np.random.Generator) -> StepTimes:
    """Times that another measurement might have found. Of one run, its steps drawn in blocks.

    Of repeats, one of them at the level that the next repeat may have: Student's t about their mean level, in
    logarithms, by their own spread and (1 + 1/n) of its square, so that three repeats cover a fourth.
    """
    if isinstance(times, Lognormal):
        return times
    one = times.runs_s[random.integers(len(times.runs_s))]
    levels = np.array([each.mean() for each in times.runs_s])
    if len(levels) == 1 or (levels <= 0).any():
        return Measured((in_blocks(one, times.block, len(one), random),), times.ranks, times.block)
    logs, freedom = np.log(levels), len(levels) - 1
    off = float(random.standard_t(freedom) * logs.std(ddof=1) * math.sqrt(1 + 1 / len(levels)))
    level = math.exp(float(logs.mean()) + min(1.0, max(-1.0, off)))  # two repeats alone say nothing of far ends
    return Measured((one * (level / one.mean()),), times.ranks, times.block)


def _lognormal(times: Lognormal, kinds: Floats, many: Floats, steps: int, random: np.random.Generator) -> Floats:
    """The slowest of n alike is at the quantile u^(1/n): one draw for each kind of rank."""
    from scipy.special import ndtri

    mean, spread = rate("mean_s", times.mean_s), math.sqrt(math.log1p(amount("cv", times.cv) ** 2))
    if spread == 0:
        return np.full(steps, mean * float(kinds.max()))
    shares = random.random((len(kinds), steps)) ** (1 / many[:, None])
    slowest = (kinds[:, None] * np.exp(spread * ndtri(shares))).max(axis=0)
    return np.asarray(mean * math.exp(-spread * spread / 2) * slowest, dtype=np.float64)
