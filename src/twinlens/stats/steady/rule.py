"""The numbers of the test for steadiness, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SteadyRule:
    """Limits of steadiness. Every default has its reason beside it."""

    delta: float = 0.01  # levels within 1 % are one level: below that, no one buys or tunes differently
    errors: float = 3.0  # ... nor are they two unless three standard errors apart, on noisy machines
    min_rows: int = 20  # fewer cannot show a change of level against noise
    min_seconds: float = 0.0  # the protocol's to raise: 60 s where clocks and heat must settle
    min_fraction: float = 1 / 3  # a last level shorter than this says how the run ended, not how it ran
    near: float = 0.05  # what is this close to the level may have reached it, and is no disturbance of a single row
    most_error: float = 0.05  # a mean known no better than that is not what a machine keeps up
    most_hidden: float = 0.10  # "one level" is no finding where a tenth more or less would not have shown
    penalty: float = 15.0  # times ln n for a change point (Barrett et al. 2017)
    points: int = 400  # the search is quadratic in points; more show no more levels
    transient_fraction: float = 0.05  # a disturbance this short is crossed, an earlier level ignored
    trend_blocks: int = 20  # enough for a slope, few enough that blocks are nearly independent
    trend_level: float = 0.99  # one steady run in a hundred may be called drifting
    cycle_strength: float = 0.4  # autocorrelation of a cycle with as much power as the noise is 0.5
    window_rows: int = 10  # a window's rate should not be one row's
    max_windows: int = 60  # twenty turns of three windows


def window_count(rows: int, rule: SteadyRule) -> int:
    """Windows a trace of `rows` is cut into, at least one."""
    return max(1, min(rule.max_windows, rows // rule.window_rows))
