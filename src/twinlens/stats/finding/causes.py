"""Causes of an unsteady run: what the machine did while rows were slow, and not while they were fast.

Row times and telemetry are laid over one grid of time. A source is a cause where it goes with the slowness (rank
correlation, judged against the same series shifted in time, which keeps whatever memory both have) and is large enough
to matter. Its share is the part of the lost time that a line through it accounts for. What was there all the time
cannot be found by correlation: it is named as such, without a share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from twinlens.stats.estimator.dependence import autocorrelation

Floats = NDArray[np.float64]
How = Literal["in time", "throughout"]

_FEWEST_BINS = 20  # fewer shifts cannot make a chance of one in twenty
_MOST_BINS = 400  # the test is quadratic in bins
_MOST_CHANCE = 0.05
_LEAST_CORRELATION = 0.3  # weaker, and it explains less than a tenth of the variation
_CALM = 0.25  # the pace that a quarter of the time reached or beat is what the run can do
_THROTTLED = (
    0x8 | 0x20 | 0x40 | 0x80
)  # NVML: hardware slowdown, thermal, power brake; the power cap is a board's normal state


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast rows went: each spans [begin_ns, end_ns] and took exp(`log_time`) per work; `tagged` rows compiled.

    Rows may overlap (requests of a server). Arrays [n].
    """

    begin_ns: Floats
    end_ns: Floats
    log_time: Floats
    tagged: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cause:
    """One source that held the run up. `slow` and `calm` are its means while rows were slow and otherwise.

    `share`: of the time lost against the calm pace, from 0 to 1; None for what was there throughout. `external`: work
    of others, not of this run or of the machine's own limits, so that another try may go undisturbed.
    """

    source: str
    how: How
    slow: float
    calm: float
    share: float | None
    correlation: float | None
    external: bool


@dataclass(frozen=True, slots=True)
class _Source:
    """How one source is read: `least`: the difference between slow and calm moments below which it cannot matter;
    `sign`: -1 where less is worse; `throughout`: the mean from which it counts although it never changed."""

    name: str
    column: str
    least: float
    sign: int = 1
    throughout: float | None = None
    external: bool = False
    relative: bool = False
    read: Callable[[Floats], Floats] = lambda values: values


def _is_throttled(bits: Floats) -> Floats:
    return np.where(np.isnan(bits), np.nan, (np.nan_to_num(bits).astype(np.int64) & _THROTTLED) != 0)


_SOURCES = (
    _Source("other-programs", "foreign_cpu", 0.05, throughout=0.10, external=True),
    _Source("steal", "steal_cpu", 0.02, throughout=0.05, external=True),
    _Source("quota", "quota_cpu", 0.02, throughout=0.05),
    _Source("clock", "cpu_mhz", 0.03, sign=-1, relative=True),
    _Source("gpu-clock", "sm_mhz", 0.03, sign=-1, relative=True),
    _Source("throttling", "throttle_bits", 0.05, throughout=0.05, read=_is_throttled),
    _Source("temperature", "temperature_c", 3.0),
    _Source("swapping", "swapped_bytes", 2**20, throughout=2**20),
    _Source("page-faults", "major_faults", 5.0),
    _Source("storage", "read_bytes", 2**20),
    _Source("garbage-collection", "gc_share", 0.02, throughout=0.10),
)
NAMES = (*(source.name for source in _SOURCES), "compile")
"""Every source that is looked at, in the order in which causes of equal share are named."""


def causes(pace: Pace, telemetry: pa.Table) -> tuple[Cause, ...]:
    """Sources that went with the slow moments of a run, largest share first; empty where nothing did or too little is
    known."""
    if telemetry.num_rows < 2 or pace.begin_ns.size == 0:
        return ()
    edges = _edges(pace, telemetry)
    if edges.size - 1 < _FEWEST_BINS:
        return _throughout(telemetry, set(), pace)
    weight = _spread(pace.begin_ns, pace.end_ns, np.ones_like(pace.log_time), edges)
    busy = weight > 0
    slowness = _spread(pace.begin_ns, pace.end_ns, pace.log_time, edges)[busy] / weight[busy]
    lost = np.expm1(np.clip(slowness - np.quantile(slowness, _CALM), -50.0, 50.0))
    candidates = []
    for source in _SOURCES:
        level = _level(telemetry, source, edges)
        if level is not None:
            candidates.append(_judged(source, level[busy], slowness, lost))
    if pace.tagged.any():
        tags = _spread(pace.begin_ns, pace.end_ns, pace.tagged.astype(float), edges)[busy] / weight[busy]
        candidates.append(_judged(_Source("compile", "", 0.05), tags, slowness, lost))
    named = sorted((cause for cause in candidates if cause), key=lambda cause: -(cause.share or 0.0))
    return (*named, *_throughout(telemetry, {cause.source for cause in named}, pace))


def _edges(pace: Pace, telemetry: pa.Table) -> Floats:
    """Edges of equal bins over the rows, each one sample and one row long at least."""
    begin, end = float(pace.begin_ns.min()), float(pace.end_ns.max())
    times = np.unique(telemetry.column("time_ns").to_numpy().astype(float))
    period = float(np.median(np.diff(times))) if times.size > 1 else end - begin
    # Requests of a server overlap and last long: the time between their ends sets a size, not how long one lasts.
    turn = float(np.median(np.diff(np.sort(pace.end_ns)))) if pace.end_ns.size > 1 else 0.0
    width = max(period, 1.05 * turn, (end - begin) / _MOST_BINS, 1.0)
    return np.linspace(begin, end, max(1, int((end - begin) / width)) + 1)


def _spread(begin: Floats, end: Floats, value: Floats, edges: Floats) -> Floats:
    """The integral of pulses (`value` from `begin` to `end`, overlapping as they like) within each bin."""
    times = np.concatenate([begin, end])
    order = np.argsort(times, kind="stable")
    slope = np.cumsum(np.concatenate([value, -value])[order])
    times = times[order]
    integral = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(times))])
    return np.diff(np.interp(edges, times, integral))


def _level(telemetry: pa.Table, source: _Source, edges: Floats) -> Floats | None:
    """The mean of a source in each bin; None where it was not sampled. Of several boards the worst counts."""
    if source.column not in telemetry.column_names:
        return None
    times = telemetry.column("time_ns").to_numpy().astype(float)
    values = source.read(_floats(telemetry, source.column))
    known = ~np.isnan(values)
    if known.sum() < 2:
        return None
    moments, place = np.unique(times[known], return_inverse=True)
    worst = np.full(moments.size, -np.inf)
    np.maximum.at(worst, place, source.sign * values[known])
    # A sample speaks for the time since the one before; the first has none before it.
    begin = np.concatenate([[moments[0] - (moments[1] - moments[0])], moments[:-1]]) if moments.size > 1 else moments
    weight = _spread(begin, moments, np.ones_like(moments), edges)
    total = _spread(begin, moments, worst, edges)
    level = np.divide(total, weight, out=np.full(weight.size, np.nan), where=weight > 0)
    return np.asarray(source.sign * level, dtype=np.float64)


def _floats(telemetry: pa.Table, column: str) -> Floats:
    return np.asarray(telemetry.column(column).cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _judged(source: _Source, level: Floats, slowness: Floats, lost: Floats) -> Cause | None:
    known = ~np.isnan(level)
    if known.sum() < _FEWEST_BINS or np.ptp(level[known]) == 0:
        return None
    level, slowness, lost = level[known], slowness[known], lost[known]
    worse = source.sign * level
    slow = lost > max(float(np.median(lost)), 0.0)
    if not slow.any() or slow.all():
        return None
    during, otherwise = float(level[slow].mean()), float(level[~slow].mean())
    gap = source.sign * (during - otherwise)
    if gap < source.least * (abs(otherwise) if source.relative else 1.0):
        return None
    correlation, chance = _together(worse, slowness)
    if correlation < _LEAST_CORRELATION or chance > _MOST_CHANCE:
        return None
    return Cause(source.name, "in time", during, otherwise, _explained(worse, lost), correlation, source.external)


def _together(level: Floats, slowness: Floats) -> tuple[float, float]:
    """Rank correlation, and its chance where there is nothing: the larger of two answers.

    How often the same series shifted in time against each other correlate as much, which waits for no formula; and the
    normal law with the variance that the memory of both gives it (Bartlett 1935), which needs no long series.
    """
    from scipy.stats import rankdata  # half a second at every start, and only a run that was disturbed needs it

    a, b = (_standard(rankdata(series)) for series in (level, slowness))
    products = np.fft.irfft(np.fft.rfft(a) * np.conj(np.fft.rfft(b)), a.size) / a.size
    here = float(products[0])
    shifted = float((products >= here - 1e-12).mean())
    lags = max(1, a.size // 4)
    both = (autocorrelation(a) * autocorrelation(b))[1 : lags + 1]
    spread = math.sqrt(max(1.0, 1 + 2 * float(both.sum())) / a.size)
    return here, max(shifted, float(scipy.special.ndtr(-here / spread)))


def _standard(series: Floats) -> Floats:
    centred = series - series.mean()
    spread = float(centred.std())
    return np.asarray(centred / spread if spread > 0 else centred, dtype=np.float64)


def _explained(level: Floats, lost: Floats) -> float:
    """The share of the lost time that a line through the source accounts for, counted from where the source is calm."""
    above = level - np.quantile(level, _CALM)
    total = float(np.clip(lost, 0.0, None).sum())
    power = float(((level - level.mean()) ** 2).sum())
    if total <= 0 or power <= 0:
        return 0.0
    slope = max(0.0, float(((level - level.mean()) * (lost - lost.mean())).sum()) / power)
    return min(1.0, slope * float(np.clip(above, 0.0, None).sum()) / total)


def _throughout(telemetry: pa.Table, named: set[str], pace: Pace) -> tuple[Cause, ...]:
    """Sources that were active the whole time; without a share, as a run has nothing of its own to compare with."""
    edges = np.array([float(pace.begin_ns.min()), float(pace.end_ns.max())])
    constant = []
    for source in _SOURCES:
        level = None if source.throughout is None or source.name in named else _level(telemetry, source, edges)
        if level is not None and level[0] >= (source.throughout or 0.0):
            constant.append(
                Cause(source.name, "throughout", float(level[0]), float(level[0]), None, None, source.external)
            )
    return tuple(constant)
