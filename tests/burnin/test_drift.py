"""Drift over hours: found where it is, not claimed where it is not, told from a day and from what a turn does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twinlens.acceptance.trend import Drift, Series, drift_of

SEEDS = 40
TENTH = math.log(0.99)


def series(seed: int, hours: float = 48.0, *, drift: float = 0.0, sigma: float = 0.01, day: float = 0.0,
           boost: float = 0.0, is_hot: bool = True, works_hard: float = 0.0) -> Series:  # fmt: skip
    """One of three workloads in turns of ten windows of a minute. `works_hard`: how far a faster window is a hotter
    one, in °C per unit of log rate."""
    rng = np.random.default_rng(seed)
    n = round(60 * hours)
    at, turn = (np.arange(n) + 0.5) * 60, np.arange(n) // 10
    place, swing = np.arange(n) % 10, np.sin(2 * math.pi * (at / 86400 + rng.random()))
    log_rate = drift * at / 36000 + sigma * rng.standard_normal(n) - day * swing + boost * np.exp(-place / 2)
    heat = 60 + 5 * swing + 3 * (1 - np.exp(-place / 3)) + works_hard * log_rate + 0.5 * rng.standard_normal(n)
    mine = turn % 3 == 0
    heat = np.round(heat) if is_hot else np.full(n, math.nan)
    return Series(at[mine], np.exp(log_rate[mine]), heat[mine], turn[mine])


def settled(seed: int, **how: float) -> Drift:
    return drift_of(series(seed, **how).settled())  # type: ignore[arg-type]


def is_claimed(found: Drift) -> bool:
    assert found.slope.low is not None
    assert found.slope.high is not None
    return not found.slope.low <= 0 <= found.slope.high


def test_one_per_cent_in_ten_hours_is_found_in_a_test_of_two_days() -> None:
    found = [settled(seed, drift=TENTH, day=0.02).slope for seed in range(SEEDS)]
    assert sum(each.high < -0.005 for each in found) >= 0.9 * SEEDS
    assert sum(each.low <= -0.01 <= each.high for each in found) >= 0.9 * SEEDS


@pytest.mark.parametrize("how", [{}, {"day": 0.02}, {"day": 0.02, "is_hot": False}, {"boost": 0.03}])
def test_no_drift_is_claimed_in_more_than_one_of_twenty_where_there_is_none(how: dict[str, float]) -> None:
    assert sum(is_claimed(settled(seed, **how)) for seed in range(SEEDS)) <= 0.05 * SEEDS


def test_a_slope_that_temperature_makes_in_half_a_day_is_not_blamed() -> None:
    blamed = [settled(seed, hours=12.0, day=0.02, sigma=0.005) for seed in range(SEEDS)]
    assert sum(each.explained == "temperature" for each in blamed) >= 0.9 * SEEDS
    assert sum(each.slope.high < -0.01 or each.slope.low > 0.01 for each in blamed) <= 0.05 * SEEDS
    assert sum(each.plain.high < -0.01 or each.plain.low > 0.01 for each in blamed) >= 0.3 * SEEDS


def test_a_rate_that_heats_the_machine_is_not_explained_by_its_heat() -> None:
    """Where the rate falls and the machine cools with it, temperature would take the whole drift with it."""
    found = [settled(seed, hours=20.0, drift=3 * TENTH, works_hard=300.0, sigma=0.005) for seed in range(10)]
    assert [each.explained for each in found] == [""] * 10
    assert all(each.slope.high < -0.02 for each in found)


def test_single_bad_windows_move_nothing() -> None:
    calm = series(1)
    rate = calm.rate.copy()
    rate[::37] *= 0.5
    bad = Series(calm.time_s, rate, calm.temperature_c, calm.turn)
    assert drift_of(bad).slope.value == pytest.approx(drift_of(calm).slope.value, abs=3e-4)


def test_too_few_windows_give_no_drift_and_say_how_many_there_are() -> None:
    short = series(0, hours=1.0)
    found = drift_of(short)
    assert found.slope.value is None
    assert found.slope.lacks == "a drift needs 30 settled windows, there are 20"


def test_a_longer_test_sees_a_smaller_drift() -> None:
    seen = [settled(3, hours=hours).visible for hours in (24.0, 48.0)]
    assert None not in seen
    assert seen[1] < seen[0] / 2  # type: ignore[operator]
