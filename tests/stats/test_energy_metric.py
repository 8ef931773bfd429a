"""Energy per unit of work from telemetry rows whose joules are known."""

from __future__ import annotations

import pyarrow as pa
import pytest

from twinlens.record.estimate import Estimate
from twinlens.record.samples import TELEMETRY_SCHEMA, Sample
from twinlens.stats.metrics.energy import energy, energy_of_training

WORK = {"energy_per_step_j": 50.0}


def telemetry(*samples: Sample) -> pa.Table:
    return pa.Table.from_pylist([sample.to_row() for sample in samples], schema=TELEMETRY_SCHEMA)


def board(watts: float, sampled_w: float | None = None, name: str = "gpu:GPU-7", seconds: int = 40) -> list[Sample]:
    """One reading a second of a counter that gains `watts` millijoules × 1000 a second."""
    return [
        Sample(t * 10**9, name, energy_mj=round(7_000_000 + watts * 1000 * t), power_w=sampled_w)
        for t in range(seconds)
    ]


def test_energy_over_a_window_by_hand() -> None:
    joules = energy(telemetry(*board(250.0)), 10.0, 30.0, WORK, "none")
    assert joules["energy_per_step_j"].value == pytest.approx(250.0 * 20 / 50)
    assert joules["energy_per_step_j"].low == pytest.approx((5000 - 25) / 50)  # one counter period of 0.1 s
    assert joules["mean_power_w"].value == pytest.approx(250.0)
    assert "GPU board" in joules["mean_power_w"].method


def test_boards_are_added_and_a_package_is_never_added_to_a_board() -> None:
    rows = [*board(250.0), *board(150.0, name="gpu:GPU-8"), *board(90.0, name="package:0")]
    assert energy(telemetry(*rows), 10.0, 30.0, WORK, "none")["mean_power_w"].value == pytest.approx(400.0)


def test_without_a_board_the_package_is_charged_and_named() -> None:
    joules = energy(telemetry(*board(90.0, name="package:0")), 10.0, 30.0, WORK, "none")
    assert joules["mean_power_w"].value == pytest.approx(90.0)
    assert "processor package" in joules["mean_power_w"].method


@pytest.mark.parametrize(
    ("sampled_w", "verdict"), [(260.0, "agrees with"), (270.0, "DISAGREES"), (None, "not cross-checked")]
)
def test_the_counter_is_checked_against_sampled_power(sampled_w: float | None, verdict: str) -> None:
    joules = energy(telemetry(*board(250.0, sampled_w)), 10.0, 30.0, WORK, "none")
    assert verdict in joules["mean_power_w"].method


def test_a_window_shorter_than_a_hundred_periods_is_not_measured() -> None:
    joules = energy(telemetry(*board(250.0)), 10.0, 19.9, WORK, "none")
    assert joules["energy_per_step_j"].value is None
    assert "shorter than 100 counter periods" in (joules["energy_per_step_j"].reason or "")


@pytest.mark.parametrize("watts", [0.0, -250.0])
def test_a_counter_that_stood_still_or_was_reset_is_not_measured(watts: float) -> None:
    joules = energy(telemetry(*board(watts)), 10.0, 30.0, WORK, "none")
    assert "stood still, was reset" in (joules["energy_per_step_j"].reason or "")


def test_without_a_counter_the_reason_is_given_and_no_zero() -> None:
    host = [Sample(t * 10**9, "host", cpu_busy=0.5) for t in range(40)]
    joules = energy(telemetry(*host), 10.0, 30.0, WORK, "RAPL: no powercap folder")
    assert (joules["mean_power_w"].value, joules["mean_power_w"].reason) == (None, "RAPL: no powercap folder")


def test_a_gpu_run_without_a_board_counter_is_not_charged_with_the_processor() -> None:
    rows = board(90.0, name="package:0")
    joules = energy(telemetry(*rows), 10.0, 30.0, WORK, "the board has no counter", "gpu")
    assert {name: one.value for name, one in joules.items()} == dict.fromkeys(joules)
    assert {one.reason for one in joules.values()} == {"the board has no counter"}
    both = telemetry(*rows, *board(250.0))
    assert energy(both, 10.0, 30.0, WORK, "none", "package")["mean_power_w"].value == pytest.approx(90.0)
    assert energy(both, 10.0, 30.0, WORK, "none", "gpu")["mean_power_w"].value == pytest.approx(250.0)


def test_what_evaluations_took_is_in_neither_the_energy_nor_the_work() -> None:
    """100 W throughout, steps of 0.1 s, an evaluation of 0.5 s after each ten: 10 J a step, not 15."""
    rows = telemetry(*board(100.0))
    looks = [(10.0 + 1.5 * n + 1.0, 10.0 + 1.5 * (n + 1)) for n in range(12)]
    joules = energy(rows, 10.0, 28.0, {"energy_per_step_j": 120.0}, "none", without=looks)
    assert joules["energy_per_step_j"].value == pytest.approx(10.0)
    assert joules["mean_power_w"].value == pytest.approx(100.0)
    assert joules["energy_per_step_j"].low < 10.0 < joules["energy_per_step_j"].high
    assert "12 stretches" in joules["energy_per_step_j"].method


def to_target(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, "s", "censored", "measured", low, high, n=1)


def test_energy_to_a_target_is_censored_as_its_time_is_and_has_evaluations_in_it() -> None:
    """100 W from the first step at 5 s: 1,500 J at the last miss, 2,000 J at the first hit, 3,000 J in all."""
    metrics = energy_of_training(telemetry(*board(100.0)), (5.0, 35.0), to_target(15.0, 20.0), "none")
    target, whole = metrics["energy_to_target_j"], metrics["energy_to_completion_j"]
    assert target.value == pytest.approx(1750.0)
    assert (target.low, target.high) == (pytest.approx(1500.0, abs=20.0), pytest.approx(2000.0, abs=20.0))
    assert whole.value == pytest.approx(3000.0)


def test_energy_to_a_target_met_at_the_first_look_begins_at_nothing() -> None:
    target = energy_of_training(telemetry(*board(100.0)), (5.0, 35.0), to_target(0.0, 20.0), "none")[
        "energy_to_target_j"
    ]
    assert (target.low, target.value) == (0.0, pytest.approx(1000.0))


def test_energy_to_a_target_that_was_missed_or_not_counted_is_absent_with_its_reason() -> None:
    missed = Estimate.absent("s", "target 1.2 nats not reached (best 1.4)")
    rows = telemetry(*board(100.0))
    assert energy_of_training(rows, (5.0, 35.0), missed, "none")["energy_to_target_j"].reason == missed.reason
    bare = energy_of_training(telemetry(), (5.0, 35.0), to_target(15.0, 20.0), "RAPL: no powercap folder")
    assert {one.reason for one in bare.values()} == {"RAPL: no powercap folder"}
    cut = energy_of_training(rows, (5.0, 35.0), None, "none", is_finished=False)
    assert list(cut) == ["energy_to_completion_j"]
    assert (cut["energy_to_completion_j"].value, cut["energy_to_completion_j"].reason) == (
        None,
        "the run did not come to its end",
    )


def by_turns(own_w: float, others_w: float, name: str = "package:0", is_read: bool = True) -> pa.Table:
    """One counter, and three points that work 2 s each in turn: ours from 0, 6, 12 … to 54 s. It is read half-way
    through our turns and at their ends, where `is_read`."""
    rows, joules = [], 0.0
    for t in range(60):
        moments = [t] if is_read or t % 6 == 1 else []
        rows += [Sample(round(each * 1e9), name, energy_mj=round(joules * 1e3)) for each in moments if t % 6 < 3]
        joules += own_w if t % 6 < 2 else others_w
        if t % 6 == 5 and is_read:
            rows.append(Sample(round((t + 0.9) * 1e9), name, energy_mj=round((joules - 0.1 * others_w) * 1e3)))
    return telemetry(*rows)


TURNS = [(6.0 * turn, 6.0 * turn + 2) for turn in range(10)]


def test_points_that_take_turns_are_charged_with_what_was_drawn_in_their_own() -> None:
    # Ten turns of 2 s at 90 W, though the counter shows 200 W in the other 40 s; a turn is known to a millisecond.
    joules = energy(by_turns(90.0, 200.0), 0.0, 60.0, WORK, "none", turns=TURNS)
    assert joules["energy_per_step_j"].value == pytest.approx(90.0 * 20 / 50, rel=0.02)
    assert joules["mean_power_w"].value == pytest.approx(90.0, rel=0.02)
    low, high = joules["energy_per_step_j"].low, joules["energy_per_step_j"].high
    assert low is not None
    assert high is not None
    assert (high - low) / (high + low) == pytest.approx(10 * 0.001 / 20)
    assert "10 turns, 20.0 s; what waiting points draw is in it" in joules["mean_power_w"].method
    part = energy(by_turns(90.0, 200.0), 13.0, 60.0, WORK, "none", turns=TURNS)
    assert part["mean_power_w"].value == pytest.approx(90.0, rel=0.02), "the window begins within a turn"


def test_turns_whose_energy_cannot_be_told_say_why() -> None:
    short = energy(by_turns(90.0, 200.0, "gpu:GPU-7"), 0.0, 60.0, WORK, "none", turns=[(t, e - 1.5) for t, e in TURNS])
    assert short["mean_power_w"].value is None
    assert "shorter than 100 counter periods (10 s)" in (short["mean_power_w"].reason or "")
    many = [(0.6 * turn, 0.6 * turn + 0.5) for turn in range(100)]
    quick = energy(by_turns(90.0, 200.0, "gpu:GPU-7"), 0.0, 60.0, WORK, "none", turns=many)
    assert quick["mean_power_w"].reason == \
        "points took turns, and a turn of 0.5 s is shorter than 10 counter periods (1 s)"  # fmt: skip
    blind = energy(by_turns(90.0, 200.0, is_read=False), 0.0, 60.0, WORK, "none", turns=TURNS)
    assert blind["mean_power_w"].reason == "points took turns, and the counter was not read at the ends of each"
    assert energy(by_turns(90.0, 200.0), 0.0, 60.0, WORK, "no counter", "gpu", turns=TURNS)["mean_power_w"].reason == \
        "no counter"  # fmt: skip


def test_the_energy_to_completion_of_turns_is_that_of_all_of_them() -> None:
    found = energy_of_training(by_turns(90.0, 200.0), (0.0, 56.0), None, "none", turns=TURNS)
    assert found["energy_to_completion_j"].value == pytest.approx(90.0 * 20, rel=0.02)
