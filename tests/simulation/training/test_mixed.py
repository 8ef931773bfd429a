"""Serving and training on the same devices: worked by hand, against queueing theory, and where it stops to pay."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.simulation.training.day import Day, Device, day_of, fewest, is_enough, turn_of
from twinlens.simulation.training.gaps import in_gaps
from twinlens.theory.waiting.shared import steps_in_gaps_per_s, wait_beside_training_s


def test_a_request_waits_for_the_step_that_is_under_way_by_hand() -> None:
    """Steps of 2 s; requests of 1 s at 3, 3.5 and 20 s: a step until 4, both served until 6, steps until 20, 22."""
    found = in_gaps(np.array([3.0, 3.5, 20.0]), np.ones(3), np.array([2.0]))
    assert found.wait_s.tolist() == [1.0, 1.5, 2.0]
    assert found.steps == 2 + 8
    assert found.span_s == 23.0
    assert in_gaps(np.array([3.0]), np.ones(1), np.zeros(0)).wait_s.tolist() == [0.0]


@pytest.mark.parametrize(("load", "service_cv"), [(0.3, 0.0), (0.6, 1.0)])
def test_waits_and_steps_are_those_of_a_queue_with_vacations(load: float, service_cv: float) -> None:
    """Groups of requests on end are all but independent: five standard errors of their means."""
    random = np.random.default_rng(1)
    arrivals = np.cumsum(random.exponential(1 / load, 60_000))
    services = random.exponential(1.0, 60_000) if service_cv else np.ones(60_000)
    found = in_gaps(arrivals, services, np.array([0.7]))
    means = found.wait_s.reshape(60, -1).mean(axis=1)
    wanted = float(wait_beside_training_s(load, 1.0, service_cv, 0.7))
    assert abs(means.mean() - wanted) <= 5 * means.std() / math.sqrt(60)
    assert means.std() / math.sqrt(60) < 0.05 * wanted
    assert found.steps_per_s == pytest.approx(float(steps_in_gaps_per_s(load, 0.7)), rel=0.02)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0.1, 3)), min_size=1, max_size=20),
       st.lists(st.floats(0.1, 2), min_size=1, max_size=4))  # fmt: skip
def test_all_time_is_served_trained_or_idle_at_no_request(pairs: list[tuple[float, float]], steps: list[float]) -> None:
    arrivals, services = np.cumsum([one for one, _ in pairs]), np.array([other for _, other in pairs])
    found, alone = in_gaps(arrivals, services, np.array(steps)), in_gaps(arrivals, services, np.zeros(0))
    assert (found.wait_s >= alone.wait_s - 1e-9).all()
    trained_s = sum(steps[each % len(steps)] for each in range(found.steps))
    assert found.span_s == pytest.approx(trained_s + services.sum()), "there is always something to do"


BOX = Device(served_per_s=10.0, steps_per_s=2.0, serving_slowdown=1.25, training_slowdown=4.0, switch_s=60.0)
DAY = Day(np.array([5.0, 25.0, 40.0, 5.0]), 21_600.0, steps=100_000.0)


def test_devices_by_hour_by_hand() -> None:
    """Serving needs 1, 3, 4, 1 of 5 devices; 6 switches of 60 s, at 2 steps/s: 2·(4+2+1+4)·21,600 − 2·6·60."""
    found = day_of("by-hour", DAY, BOX, 5)
    assert found.serving.tolist() == [1, 3, 4, 1]
    assert found.served_share == 1.0
    assert found.switches == 6
    assert found.steps == pytest.approx(2 * 11 * 21_600 - 2 * 6 * 60)


def test_devices_apart_and_together_by_hand() -> None:
    """Apart, 4 serve and 1 trains. Together, 5 serve up to 40/s with 2·5/4 steps/s."""
    apart = day_of("apart", DAY, BOX, 5)
    assert apart.steps == pytest.approx(2 * 86_400)
    assert apart.switches == 0
    together = day_of("together", DAY, BOX, 5)
    assert together.served_share == 1.0
    assert together.steps == pytest.approx(2.5 * 86_400)
    short = day_of("together", DAY, BOX, 4)
    assert short.served == pytest.approx((5 + 25 + 32 + 5) * 21_600)
    assert not is_enough(DAY, short)


def test_the_fewest_devices_by_each_way() -> None:
    """100,000 steps are 0.58 of a device's day. Apart 4 + 1; by hour 4 are enough: three of them train at night."""
    assert fewest("apart", DAY, BOX).devices == 5
    assert fewest("by-hour", DAY, BOX).devices == 4
    assert fewest("together", DAY, BOX).devices == 5


def test_sharing_stops_to_pay_where_its_slowdown_takes_a_device_more() -> None:
    """At 1/s, a box serves 10/s alone, and shared 8/s with 0.5 steps/s, of which 0.25 are asked. One box does
    both until 8/s; from there it takes two, as apart."""
    flat = Day(np.array([1.0]), 86_400.0, steps=0.25 * 86_400)
    assert fewest("together", flat, BOX).devices == 1
    assert fewest("apart", flat, BOX).devices == 2
    together = turn_of("together", flat, BOX)
    assert together.saves
    assert together.below is None
    assert together.above == pytest.approx(8.0, rel=2e-3)
    assert turn_of("by-hour", flat, BOX).saves is False, "no hour is without requests"


def test_the_nearest_turns_of_an_answer_by_hand() -> None:
    """0.25 steps/s asked of 2/s. At 2, 10, 2, 2 /s a box of 10/s serves and trains never, so there are two, as
    apart. A little more, and two serve at the peak, of which one trains in the rest of the day: 2 against 3."""
    day = Day(np.array([2.0, 10.0, 2.0, 2.0]), 21_600.0, steps=0.25 * 86_400)
    turn = turn_of("by-hour", day, replace(BOX, switch_s=0.0), most=4.0)
    assert not turn.saves
    assert turn.below is None
    assert turn.above == pytest.approx(1.0, rel=2e-3)
    more = turn_of("by-hour", replace(day, rate_per_s=1.5 * day.rate_per_s), replace(BOX, switch_s=0.0), most=3.0)
    assert more.saves
    assert more.below == pytest.approx(1 / 1.5, rel=2e-3)
    assert more.above is None


@settings(max_examples=40)
@given(st.lists(st.floats(0, 50), min_size=1, max_size=6), st.floats(0, 1e5), st.integers(1, 20))
def test_another_device_never_does_less_and_no_more_is_served_than_came(
    rates: list[float], steps: float, devices: int
) -> None:
    day = Day(np.array(rates), 3600.0, steps)
    for way in ("apart", "by-hour", "together"):
        one, more = (day_of(way, day, BOX, many) for many in (devices, devices + 1))  # type: ignore[arg-type]
        assert more.served >= one.served
        assert one.served <= day.rate_per_s.sum() * 3600 * (1 + 1e-12)
        assert 0 <= one.served_share <= 1 + 1e-12
        assert one.steps <= devices * BOX.steps_per_s * 3600 * len(rates) * (1 + 1e-12)
    assert day_of("by-hour", day, replace(BOX, switch_s=0.0), devices).steps >= day_of("apart", day, BOX, devices).steps


def test_mixed_work_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadInput, match="arrivals in order"):
        in_gaps(np.array([2.0, 1.0]), np.ones(2), np.ones(1))
    with pytest.raises(BadInput, match="take seconds above 0"):
        in_gaps(np.array([2.0]), np.zeros(1), np.ones(1))
    with pytest.raises(BadInput, match="a slowdown of sharing is 1 or more"):
        day_of("apart", DAY, replace(BOX, training_slowdown=0.5), 1)
    with pytest.raises(BadInput, match="each alone"):
        day_of("apart", DAY, replace(BOX, steps_per_s=0.0), 1)
    with pytest.raises(BadInput, match="rate of requests that is finite"):
        day_of("apart", replace(DAY, rate_per_s=np.array([-1.0])), BOX, 1)
    with pytest.raises(BadInput, match="even 1,000,000 devices are not enough"):
        fewest("apart", replace(DAY, steps=1e30), BOX)
