"""Drift of a rate over hours: a slope that neither noise with a memory, nor temperature, nor a daily cycle explains.

Log rate is regressed on test time, on temperature where it was read, and on the harmonics of a day where the test is
long enough to tell them from a slope. Windows are first made means of blocks without their extremes, so that single bad
windows do not count; the blocks have noise of first order (AR 1), whose correlation is integrated out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from twinlens.record.estimate import Estimate
from twinlens.units import DAY_S, HOUR_S, RATIO

Floats = NDArray[np.float64]
Explained = Literal["", "temperature", "time of day", "temperature and time of day"]
TEN_HOURS_S = 10 * HOUR_S
_MOST_BLOCKS, _FEWEST_BLOCKS, _FEWEST_IN_BLOCK = 48, 10, 3
_TRIMMED = 0.2  # of a block, at either end
_LEAST_SPREAD_C = 0.5  # sensors tell whole degrees
_SETTLING_S, _SETTLING_SHARE = 1800.0, 0.1  # boost and warm-up are no drift
_FEWEST_TURNS = 4
_MEMORIES = np.concatenate([np.linspace(0, 0.9, 31), 1 - np.geomspace(0.08, 0.02, 5)])
"""Correlations of neighbouring blocks; below 0 nothing is credited."""
_POWER_ERRORS = 0.84  # as of `least_visible_change`: four in five tests see it


@dataclass(frozen=True, slots=True)
class Drift:
    """`slope`: relative change of the rate in ten hours, less what `explained` took; `plain`: with it. `visible`: the
    smallest drift that four in five such tests show; None without an interval."""

    slope: Estimate
    plain: Estimate
    explained: Explained = ""
    visible: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Windows of one workload in order [n]: middle of each in seconds of test time, work per second, temperature (NaN
    where none was read) and turn."""

    time_s: Floats
    rate: Floats
    temperature_c: Floats
    turn: NDArray[np.int64]

    def settled(self) -> Series:
        """Without the first half hour, or the first tenth of a shorter test."""
        if not self.time_s.size:
            return self
        begin = float(self.time_s[0])
        kept = self.time_s >= begin + min(_SETTLING_S, _SETTLING_SHARE * (float(self.time_s[-1]) - begin))
        return Series(self.time_s[kept], self.rate[kept], self.temperature_c[kept], self.turn[kept])


def drift_of(series: Series, level: float = 0.95) -> Drift:
    """The drift of settled windows. Absent where they are too few for blocks."""
    blocks = min(_MOST_BLOCKS, series.rate.size // _FEWEST_IN_BLOCK)
    if blocks < _FEWEST_BLOCKS:
        least = _FEWEST_BLOCKS * _FEWEST_IN_BLOCK
        why = Estimate.absent(RATIO, f"a drift needs {least} settled windows", seen=f"there are {series.rate.size}")
        return Drift(why, why)
    parts = np.array_split(np.arange(series.rate.size), blocks)
    log_rate = np.log(series.rate)
    y = _trimmed_means(log_rate - _of_place(log_rate, series.turn), parts)
    hours = np.array([series.time_s[part].mean() for part in parts]) / HOUR_S
    heat = _trimmed_means(series.temperature_c - _of_place(series.temperature_c, series.turn), parts)
    plain = np.column_stack([np.ones(blocks), hours - hours.mean()])
    raw, _ = _slope(y, plain, level, "")
    columns, explained = _beside(y, plain, hours, heat)
    if not explained:
        return Drift(raw, raw, "", _visible(raw, level))
    slope, _ = _slope(y, np.column_stack([plain, *columns]), level, f", {explained} taken out")
    return Drift(slope, raw, explained, _visible(slope, level))


def _beside(y: Floats, plain: Floats, hours: Floats, heat: Floats) -> tuple[list[Floats], Explained]:
    """What may move the rate beside a drift [blocks] each, and its name.

    Heat makes no processor faster: where the rate rises with temperature, it is the work that heats, and temperature is
    left out, for it would hide a drift.
    """
    day = _harmonics(hours)
    if np.isfinite(heat).all() and float(heat.std()) > _LEAST_SPREAD_C:
        centred = heat - heat.mean()
        _, coefficients = _slope(y, np.column_stack([plain, centred, *day]), 0.95, "")
        if coefficients[2] < 0:
            return [centred, *day], "temperature and time of day" if day else "temperature"
    return day, "time of day" if day else ""


def _harmonics(hours: Floats) -> list[Floats]:
    """Sine and cosine of a day, and of half a day; none where the test is no longer than a day."""
    spanned = float(hours[-1] - hours[0]) * (1 + 1 / hours.size)
    turns = 2 if spanned >= 1.5 * DAY_S / HOUR_S else 1 if spanned >= 0.95 * DAY_S / HOUR_S else 0
    angles = [2 * math.pi * turn * hours / 24 for turn in range(1, turns + 1)]
    return [wave(angle) for angle in angles for wave in (np.sin, np.cos)]


def unexplained(series: Series) -> Floats:
    """Log rate [n] less a straight line, the sines of a day and the temperature: noise, and what nobody explains."""
    hours = series.time_s / HOUR_S
    columns = [np.ones(hours.size), hours - hours.mean(), *_harmonics(hours)]
    if np.isfinite(series.temperature_c).all():
        columns.append(series.temperature_c - series.temperature_c.mean())
    x, log_rate = np.column_stack(columns), np.log(series.rate)
    return np.asarray(log_rate - x @ np.linalg.lstsq(x, log_rate, rcond=None)[0])


def _of_place(values: Floats, turn: NDArray[np.int64]) -> Floats:
    """What a window's place in its turn does to its value [n] (a rest cools, boost decays): medians over turns."""
    first = np.flatnonzero(np.diff(turn, prepend=turn[0] - 1))
    effect = np.zeros(values.size)
    if first.size < _FEWEST_TURNS:
        return effect
    place = np.arange(values.size) - np.repeat(first, np.diff(first, append=values.size))
    for each in range(int(place.max()) + 1):
        here = place == each
        known = np.count_nonzero(here) >= _FEWEST_TURNS
        effect[here] = float(np.median(values[here] if known else values))
    return effect - float(effect.mean())


def _trimmed_means(values: Floats, parts: list[NDArray[np.int64]]) -> Floats:
    cut = [int(_TRIMMED * part.size) for part in parts]
    return np.array([np.sort(values[part])[k : part.size - k].mean() for part, k in zip(parts, cut, strict=True)])


def _slope(y: Floats, x: Floats, level: float, taken_out: str) -> tuple[Estimate, Floats]:
    """The relative change in ten hours, by the second column of x (hours), and all coefficients [k].

    For each correlation ρ of neighbouring blocks the slope has a t distribution by generalised least squares; ρ counts
    by its restricted likelihood, and the interval is that of the mixture (Zellner & Tiao 1964, "Bayesian Analysis of
    the Regression Model with Autocorrelated Errors").
    """
    n, k = x.shape
    rho = _MEMORIES[:, None, None]
    rows = np.column_stack([x, y])
    white = np.concatenate([np.sqrt(1 - rho * rho) * rows[:1], rows[1:] - rho * rows[:-1]], axis=1)  # [ρ, n, k + 1]
    products = np.swapaxes(white, 1, 2) @ white
    inverse = np.linalg.inv(products[:, :k, :k])
    fits = (inverse @ products[:, :k, k:])[..., 0]
    squares = np.maximum(((white[..., k] - (white[..., :k] @ fits[..., None])[..., 0]) ** 2).sum(axis=1), 1e-18)
    errors = np.sqrt(squares / (n - k) * inverse[:, 1, 1])
    weights = np.log(1 - _MEMORIES**2) / 2 + np.linalg.slogdet(inverse)[1] / 2 - (n - k) / 2 * np.log(squares)
    share = np.exp(weights - weights.max())
    share /= share.sum()
    coefficients = share @ fits
    low, high = (_quantile(p, share, fits[:, 1], errors, n - k) for p in ((1 - level) / 2, (1 + level) / 2))
    method = f"generalised least squares over {n} blocks, AR(1) noise integrated out{taken_out}"
    value, low, high = (math.expm1(max(-700.0, min(700.0, 10 * each))) for each in (coefficients[1], low, high))
    return Estimate(value, RATIO, method, "derived", low, high, level, n), coefficients


def _quantile(p: float, share: Floats, middle: Floats, error: Floats, freedom: int) -> float:
    """The p quantile of a mixture of t distributions."""
    reach = float(scipy.special.stdtrit(freedom, 1 - min(p, 1 - p) / 100)) * float(error.max())
    beyond = lambda at: float(share @ scipy.special.stdtr(freedom, (at - middle) / error)) - p  # noqa: E731
    return float(scipy.optimize.brentq(beyond, float(middle.min()) - reach, float(middle.max()) + reach, xtol=1e-12))


def _visible(slope: Estimate, level: float) -> float | None:
    if slope.low is None or slope.high is None:
        return None
    errors = float(scipy.special.ndtri((1 + level) / 2))
    return (slope.high - slope.low) / 2 * (errors + _POWER_ERRORS) / errors
