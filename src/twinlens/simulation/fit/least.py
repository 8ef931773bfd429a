"""Constants of a step law from steps: non-negative least squares of relative errors, means matched, in blocks.

Slow steps come in spells, so steps are not independent: what is summed is summed in blocks of `BLOCK` steps on end, and
a bootstrap draws whole blocks. The law is of the mean: ratios of steps to it are 1 on average, slow ones included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from twinlens.simulation.work import Floats

TERMS = ("fixed_s", "row_s", "context_s", "token_s", "pair_s", "before_s")
"""Columns of what was observed: the constants of `Affine`, and what a request that found the engine idle waits more."""
BEFORE = TERMS.index("before_s")
BLOCK = 64
_FIRST_KEPT = ("fixed_s", "row_s", "before_s", "token_s", "context_s", "pair_s")
_LEAST_OWN = 0.01
"""Share of a column's size that the columns before it do not make: below it nobody can tell them apart."""
_ROUNDS = 6
_LEAST_USUAL = 1e-3  # of the median: no ratio is beyond all measure
_OUTLYING = 2.0  # times the median ratio: beyond it a step counts less, so that no spell of slow ones tilts the law
_LAGS = (1, 4, 16, 64)


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What one server showed, in order of time. `work`: (n, terms). `seconds`: (n,). A row is a step that followed
    another at once (`before_s` column 0), or a first token of a request that found the engine idle (1)."""

    server: str
    work: Floats
    seconds: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """`constants`: (terms,), of a server in the middle. `levels`, `before`: per server, factors on its steps and on its
    `before_s`. `ratios`: per server, seconds of steps over what the law gives, mean 1. `sums`: per server, blocks."""

    constants: Floats
    kept: tuple[str, ...]
    levels: Floats
    before: Floats
    ratios: tuple[Floats, ...]
    sums: tuple[Sums, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums over blocks. Shapes: (blocks, terms, terms), (blocks, terms), then of steps and of first tokens: the work
    (blocks, terms) and the seconds (blocks,), those of steps over what the law gives for them."""

    squares: Floats
    products: Floats
    step_work: Floats
    step_s: Floats
    first_work: Floats
    first_s: Floats

    def drawn(self, rng: np.random.Generator) -> Sums:
        """As many blocks, drawn with replacement."""
        return self.of(rng.integers(len(self.step_s), size=len(self.step_s)))

    def of(self, blocks: np.ndarray) -> Sums:
        """These blocks."""
        return Sums(*(getattr(self, name)[blocks] for name in self.__slots__))


def least_squares(observed: Sequence[Observed]) -> Fit:
    """One law for all servers, each with a level of its own for its steps and for what happens before them."""
    levels, before = np.ones(len(observed)), np.ones(len(observed))
    kept = _told_apart(
        np.concatenate([each.work for each in observed]), np.concatenate([each.seconds for each in observed])
    )
    usual = [np.full(len(each.seconds), np.median(each.seconds)) for each in observed]
    constants = np.zeros(len(TERMS))
    for _ in range(_ROUNDS):
        sums = tuple(map(_sums, observed, usual, levels, before))
        constants = solve(sums, kept)
        levels, before = _levels(observed, constants)
        constants, levels, before = _centred(constants, levels, before)
        law_s = [_own_work(*each) @ constants for each in zip(observed, levels, before, strict=True)]
        usual = [np.maximum(each, _LEAST_USUAL * np.median(each)) for each in law_s]
    sums = tuple(map(_sums, observed, usual, levels, before))
    ratios = tuple((each.seconds / law_s)[_is_step(each)] for each, law_s in zip(observed, usual, strict=True))
    return Fit(constants, kept, levels, before, ratios, sums)


def solve(sums: Sequence[Sums], kept: Sequence[str]) -> Floats:
    """The constants (terms,) from sums over blocks, none below 0: shape by least squares, level by the mean.

    `before_s` is NaN where it was asked for and no block has a first token.
    """
    squares, products, size = _normal(sums, kept)
    factor = cholesky(squares, lower=True)
    found, _ = nnls(factor.T, solve_triangular(factor, products, lower=True))
    constants = np.zeros(len(TERMS))
    constants[[TERMS.index(name) for name in kept]] = found / size
    return mean_matched(constants, sums, is_asked="before_s" in kept)


def any_sign(sums: Sequence[Sums], kept: Sequence[str]) -> Floats:
    """The constants of `kept` (kept,) by least squares alone, of any sign."""
    squares, products, size = _normal(sums, kept)
    return np.asarray(np.linalg.solve(squares, products) / size)


def _normal(sums: Sequence[Sums], kept: Sequence[str]) -> tuple[Floats, Floats, Floats]:
    """The normal equations of terms in units of their size, and that size."""
    places = [TERMS.index(name) for name in kept]
    squares = sum(each.squares.sum(axis=0) for each in sums)[np.ix_(places, places)]
    products = sum(each.products.sum(axis=0) for each in sums)[places]
    size = np.sqrt(np.maximum(np.diag(squares), 1e-300))
    return squares / np.outer(size, size) + 1e-9 * np.eye(len(places)), products / size, size


def mean_matched(constants: Floats, sums: Sequence[Sums], *, is_asked: bool) -> Floats:
    """Constants (terms,) whose steps take as long as those of `sums` on average; `before_s` is what first tokens lack.

    It is 0 unless it is asked for, and NaN where no block has a first token.
    """
    steps = np.concatenate([each.step_work for each in sums]).sum(axis=0)
    firsts = np.concatenate([each.first_work for each in sums]).sum(axis=0)
    matched = constants.copy()
    matched[BEFORE] = 0.0
    matched *= sum(each.step_s.sum() for each in sums) / max(float(steps @ matched), 1e-300)
    if is_asked:
        rest = sum(each.first_s.sum() for each in sums) - float(firsts @ matched)
        matched[BEFORE] = max(rest / firsts[BEFORE], 0.0) if firsts[BEFORE] else np.nan
    return np.asarray(matched)


def _told_apart(work: Floats, seconds: Floats) -> tuple[str, ...]:
    """Terms that the work tells apart, in the order in which they are asked for."""
    relative = work / np.maximum(seconds, np.median(seconds))[:, None]
    kept: list[str] = []
    for name in _FIRST_KEPT:
        column = relative[:, TERMS.index(name)]
        size = float(np.linalg.norm(column))
        if not size:
            continue
        if kept:
            others = relative[:, [TERMS.index(each) for each in kept]]
            scaled = others / np.linalg.norm(others, axis=0)
            own = column - scaled @ np.linalg.lstsq(scaled, column, rcond=None)[0]
            if np.linalg.norm(own) < _LEAST_OWN * size:
                continue
        kept.append(name)
    return tuple(kept)


def _own_work(observed: Observed, level: float, before: float) -> Floats:
    factors = np.full(len(TERMS), level)
    factors[BEFORE] = before
    return np.asarray(observed.work * factors)


def _is_step(observed: Observed) -> np.ndarray:
    return np.asarray(observed.work[:, BEFORE] == 0)


def _sums(observed: Observed, usual_s: Floats, level: float, before: float) -> Sums:
    """`usual_s` (n,): what each row takes by the law so far."""
    work, is_step = _own_work(observed, level, before), _is_step(observed)
    starts = np.arange(0, len(work), BLOCK)
    ratio, share = observed.seconds / usual_s, work / usual_s[:, None]
    own_ratio, own_share = ratio.copy(), share.copy()
    own_ratio[is_step], own_share[is_step] = _beyond_spells(ratio[is_step], share[is_step])
    outlying = np.maximum(ratio / (_OUTLYING * float(np.median(ratio))), 1.0)
    weighted, weighted_s = own_share / np.sqrt(outlying)[:, None], own_ratio / np.sqrt(outlying)

    def blocks(values: Floats) -> Floats:
        return np.asarray(np.add.reduceat(values, starts, axis=0))

    return Sums(
        blocks(weighted[:, :, None] * weighted[:, None, :]),
        blocks(weighted * weighted_s[:, None]),
        blocks(share * is_step[:, None]),
        blocks(ratio * is_step),
        blocks(work * ~is_step[:, None]),
        blocks(observed.seconds * ~is_step),
    )


def _beyond_spells(ratio: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Ratios (steps,) and shares of work (steps, terms) less what the steps before make expected of the ratio, from
    means of the last 1, 4, 16 and 64 (Cochrane and Orcutt 1949, with the lags of Corsi 2009).

    In a spell of slow steps more requests come in a step, so steps with more prompts lie in slow spells: without this
    their work would be taken for the cause.
    """
    past = _past(ratio - 1.0)
    kept = np.linalg.lstsq(past, ratio - 1.0, rcond=None)[0]
    own = np.column_stack([column - _past(column) @ kept for column in share.T])
    return ratio - _past(ratio) @ kept, own


def _past(series: Floats) -> Floats:
    """Means of the last values before each of a series (n,), by lag (n, lags); 0 before its begin."""
    sums, ends = np.concatenate([[0.0], np.cumsum(series)]), np.arange(len(series))
    return np.column_stack([(sums[ends] - sums[np.maximum(ends - lag, 0)]) / lag for lag in _LAGS])


def _levels(observed: Sequence[Observed], constants: Floats) -> tuple[Floats, Floats]:
    """Of each server, factors on its steps, by the mean of ratios, and on what its requests wait outside them."""
    levels, before = np.ones(len(observed)), np.ones(len(observed))
    for i, each in enumerate(observed):
        is_step = _is_step(each)
        levels[i] = float((each.seconds[is_step] / (each.work[is_step] @ constants)).mean())
        waits = (each.seconds - _own_work(each, levels[i], 0.0) @ constants)[~is_step]
        if waits.size and constants[BEFORE] > 0:
            before[i] = max(float(waits.mean()) / constants[BEFORE], 0.05)
    return levels, before


def _centred(constants: Floats, levels: Floats, before: Floats) -> tuple[Floats, Floats, Floats]:
    """The same with levels whose geometric mean is 1."""
    middle, middle_before = float(np.exp(np.log(levels).mean())), float(np.exp(np.log(before).mean()))
    factors = np.full(len(TERMS), middle)
    factors[BEFORE] = middle_before
    return constants * factors, levels / middle, before / middle_before
