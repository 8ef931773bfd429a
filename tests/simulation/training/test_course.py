"""Courses: time to finish over seeds and constants, and Daly's interval found again as the best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from twinlens.errors import BadInput
from twinlens.simulation.training.course import Constant, Course, best_save_interval, drawn, finish, of_nodes
from twinlens.simulation.training.steps import Lognormal, Measured
from twinlens.theory.waiting.checkpoint import daly, young
from twinlens.theory.waiting.slowest import slowest_of_lognormal

LONG = Course(20_000, Lognormal(1.0, 0.1), save_every=60, save=Constant(5.0), failure=Constant(400.0))


def test_the_best_time_between_saves_is_dalys_inside_its_interval() -> None:
    """δ = 5 s, M = 400 s: Young 63.2 s, Daly 60.0 s; runs are drawn, and neither formula is used to judge them."""
    found = best_save_interval(LONG, seeds=20)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= daly(5.0, 400.0) <= found.high
    assert found.high / found.low < 1.2
    assert young(5.0, 400.0) == pytest.approx(63.2, abs=0.1)


def test_a_constant_that_is_uncertain_makes_the_interval_wider() -> None:
    few = replace(LONG, steps=4000)
    sure = finish(few, 60).wall
    unsure = finish(replace(few, save=Constant(5.0, 1.0, 25.0)), 60).wall
    for each in (sure, unsure):
        assert each.low is not None
        assert each.high is not None
    assert unsure.high - unsure.low > 1.5 * (sure.high - sure.low)  # type: ignore[operator]
    assert 4000 < sure.low < 1.5 * 4000  # type: ignore[operator]


def test_one_simulation_has_no_band_and_says_why() -> None:
    found = finish(replace(LONG, steps=100), 1)
    assert found.wall.low is None
    assert found.wall.no_interval == "one simulation has no spread"
    assert sum(each.value or 0.0 for each in found.parts.values()) > 100 * 0.9


def test_a_constant_stays_inside_its_interval_19_times_of_20() -> None:
    random = np.random.default_rng(0)
    values = np.array([Constant(10.0, 8.0, 20.0).drawn(random) for _ in range(4000)])
    assert np.mean((values < 8.0) | (values > 20.0)) == pytest.approx(0.05, abs=0.012)
    assert np.median(values) == pytest.approx(10.0, rel=0.02)
    assert Constant(10.0).drawn(random) == 10.0


def test_a_step_takes_its_slowest_rank_and_the_wait_for_data() -> None:
    course = Course(10, Lognormal(1.0, 0.2), (1.0,) * 16, data=Measured((np.array([0.5, 1.5]),)))
    assert course.step_s == pytest.approx(slowest_of_lognormal(1.0, 0.2, np.ones(16)) + 1.0)
    assert set(drawn(course, np.random.default_rng(0)).data_s) <= {0.5, 1.5}


def test_a_job_fails_as_often_as_its_nodes_together() -> None:
    assert of_nodes(50_000.0, 100) == 500.0
    with pytest.raises(BadInput, match="at least one node"):
        of_nodes(1.0, 0)


def test_two_courses_share_their_constants_where_one_changes() -> None:
    """Level, saves and restarts are drawn from streams of their own, so more steps do not change them."""
    one = replace(LONG, level=Constant(1.0, 0.8, 1.3), save=Constant(5.0, 4.0, 6.0), restart=Constant(9.0, 5.0, 20.0))
    few, many = (drawn(replace(one, steps=steps), np.random.default_rng(3)) for steps in (100, 300))
    assert few.step_s.tolist() == many.step_s[:100].tolist()
    assert (few.save_s, few.restart_s, few.failure_s) == (many.save_s, many.restart_s, many.failure_s)
    assert few.save_s != 5.0


def test_courses_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadInput, match="at least one step"):
        finish(replace(LONG, steps=0), 1)
    with pytest.raises(BadInput, match="at least one seed"):
        finish(LONG, 0)
    with pytest.raises(BadInput, match="only where saves cost time"):
        best_save_interval(replace(LONG, failure=None), 20)
    assert best_save_interval(replace(LONG, failure=Constant(2.0), save=Constant(0.01)), 20).value is None
