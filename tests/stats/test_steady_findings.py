"""What the test for steadiness says as data, and what clocks and temperatures add to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from twinlens.record.samples import TELEMETRY_SCHEMA, Sample
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.estimator.interval import t_quantile
from twinlens.stats.estimator.rate import mean_error, rate_interval
from twinlens.stats.finding.steadiness import change_unseen, disturbed, machine, row_spread
from twinlens.stats.steady.disturbed import Disturbance, Disturbed
from twinlens.stats.steady.segment import segment
from twinlens.stats.summary.group import Verdict

FLAT = Verdict("flat", "valid", "one level", 0, 100, 0.0, 60.0)


def telemetry(**columns: np.ndarray) -> pa.Table:
    """Samples of one board, one each second."""
    count = len(next(iter(columns.values())))
    rows = [
        Sample(i * 10**9, "gpu:1", **{name: float(values[i]) for name, values in columns.items()}).to_row()
        for i in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=TELEMETRY_SCHEMA)


def test_a_disturbance_is_a_finding_with_its_count_share_effect_and_time() -> None:
    small = Disturbance(10, 11, 0.01, 2.0, 6.0, 6.6)
    large = Disturbance(40, 60, 0.30, 3.0, 24.0, 40.0)
    (found,) = disturbed(replace(FLAT, disturbed=Disturbed((small, large), 0.25, True)))
    assert (found.code, found.severity) == ("disturbed", "disqualifies")
    assert found.numbers == {
        "count": 2, "share": pytest.approx(0.31), "effect": 0.25, "factor": 3.0, "begin_s": 24.0, "end_s": 40.0
    }  # fmt: skip
    assert sentence_of(found) == (
        "The speed changed 2 times, for 31 % of the window: from 24.0 to 40.0 s the work took 3.00 times as long. "
        "The figures include this time, which changes them by 25 %."
    )
    (passing,) = disturbed(replace(FLAT, disturbed=Disturbed((small,), 0.01, False)))
    assert passing.severity == "warns"
    assert not list(disturbed(FLAT))


def test_a_change_that_might_have_gone_by_is_a_warning() -> None:
    (found,) = change_unseen(replace(FLAT, least_visible_change=0.073))
    assert (found.code, found.severity) == ("change-unseen", "warns")
    assert "a change of less than 7.3 % could be missed" in sentence_of(found)
    assert not list(change_unseen(replace(FLAT, least_visible_change=0.04)))
    assert not list(change_unseen(FLAT)), "what was not tested is not said"


def test_scatter_is_noted_above_three_percent() -> None:
    assert [one.code for one in row_spread(replace(FLAT, cv=0.04))] == ["rows-scatter"]
    assert not list(row_spread(replace(FLAT, cv=0.02)))
    assert not list(row_spread(FLAT))


def test_a_clock_that_moves_and_a_board_that_still_warms_are_warnings() -> None:
    rng = np.random.default_rng(1)
    still = {"sm_mhz": 1500 + rng.normal(0, 3, 60), "temperature_c": 60 + rng.normal(0, 0.3, 60)}
    assert not list(machine(FLAT, telemetry(**still)))
    moving = still | {"sm_mhz": np.where(np.arange(60) < 30, 1500.0, 1440.0)}
    (clock,) = machine(FLAT, telemetry(**moving))
    assert (clock.code, clock.subject, clock.numbers["cv"]) == ("clock-moves", "gpu:1", pytest.approx(0.0204, abs=1e-3))
    warming = still | {"temperature_c": 60 + np.arange(60) / 20}
    (heat,) = machine(FLAT, telemetry(**warming))
    assert (heat.code, heat.numbers["c_per_min"]) == ("still-warming", pytest.approx(3.0))
    assert "grew warmer by 3.0 °C a minute" in sentence_of(heat)
    assert not list(machine(replace(FLAT, validity="not valid"), telemetry(**warming))), (
        "it is not valid for another reason"
    )
    assert not list(machine(FLAT, telemetry(sm_mhz=np.full(5, 1.0)))), "five samples have no spread"


def test_the_error_that_decides_is_that_of_the_rate_that_is_reported() -> None:
    """By the same groups: the interval is that error and the doubt of its own count, whatever the rows depend on."""
    for seed, phi in ((1, 0.0), (2, 0.5), (3, 0.8)):
        rng = np.random.default_rng(seed)
        series = rng.normal(size=400)
        for i in range(1, 400):
            series[i] = phi * series[i - 1] + np.sqrt(1 - phi**2) * series[i]
        times_s = np.exp(0.05 * series)
        error, independent = mean_error(np.log(times_s), np.ones(400))
        end_ns = np.rint(np.cumsum(times_s) * 1e9).astype(np.int64)
        rate = rate_interval(np.ones(400), np.concatenate(([0], end_ns[:-1])), end_ns, unit="1/s")
        assert rate.n is not None
        assert 0.5 * independent < rate.n <= independent, "the interval adds the doubt of the count itself"
        assert rate.high is not None
        assert rate.low is not None
        half = np.log(rate.high / rate.low) / 2
        plain = t_quantile(0.95, independent - 1) * error
        assert 0.95 * plain <= half <= 1.6 * plain


def test_a_level_that_wanders_has_no_mean_and_one_that_only_scatters_has() -> None:
    rng = np.random.default_rng(0)
    assert segment(np.exp(0.05 * rng.normal(size=300))).validity == "valid"
    slow = np.repeat(rng.normal(size=12), 25)  # a level that changes every 25 rows by itself
    steadiness = segment(np.exp(0.25 * slow + 0.01 * rng.normal(size=300)))
    assert steadiness.validity == "not valid"
