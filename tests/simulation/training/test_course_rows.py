"""Rows of simulated training: the statistics of measured rows read from them what the simulation knows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.simulation.training.test_course_history import gone, plan, plans

from twinlens.errors import BadInput
from twinlens.record.step import STEP_SCHEMA, Steps
from twinlens.simulation.training.history import Plan, history
from twinlens.simulation.training.rows import Step, rows
from twinlens.stats.wall_time import wall_time

WORK = Step(8, 2048, {"forward": 0.3, "backward": 0.6})


@settings(max_examples=50)
@given(plans())
def test_an_account_of_the_rows_is_that_of_the_simulation(asked: Plan) -> None:
    found = gone(asked, 3)
    made = rows(found, WORK)
    assert made.table.schema == STEP_SCHEMA
    steps = Steps.from_table(made.table)
    account = wall_time(steps, round(made.startup_s * 1e9))
    assert account.steps == len(asked.step_s)
    for name, seconds in found.parts_s.items():
        assert account.parts_ns[name] / 1e9 == pytest.approx(seconds, abs=1e-7), name
    assert (steps.begin_ns[1:] >= steps.end_ns[:-1]).all()
    assert len(made.saves) == (len(found.first) - 1 if asked.save_every else 0)


def test_rows_of_a_run_that_fails_once_by_hand() -> None:
    """Steps of 2.5 s, saves of 1 s after two. A failure 3 s into the first stretch: one step done, 0.5 s of it lost."""
    asked = plan(4, save_every=2, save_s=1.0, failure_s=1e9, restart_s=7.0)
    calm = gone(asked)
    once = type(calm)(asked, calm.is_step, calm.row_s, calm.first, np.array([0]), np.array([3.0]), np.array([1]),
                      np.array([7.0]))  # fmt: skip
    made = rows(once, WORK).table.to_pydict()
    assert made["kind"] == ["step", "recover", "step", "step", "step", "step"]
    assert made["tag"] == [None, None, "repeat", None, None, None]
    assert [each / 1e9 for each in made["begin_ns"]] == [0.0, 3.0, 10.0, 12.5, 16.0, 18.5]
    assert [each / 1e9 for each in made["end_ns"]] == [2.5, 10.0, 12.5, 16.0, 18.5, 22.0]
    assert made["checkpoint_ns"] == [None, None, None, 10**9, None, 10**9]
    assert made["data_ns"] == [500_000_000, None, *[500_000_000] * 4]
    assert made["forward_ns"][0] == 600_000_000
    assert made["optimize_ns"] == [None] * 6


def test_more_rows_than_can_be_kept_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlens.simulation.training.rows.MOST_ROWS", 5)
    with pytest.raises(BadInput, match="the run has 6 rows, and 5 are kept at most; simulate fewer steps"):
        rows(gone(plan(6)), WORK)


def test_shares_above_the_whole_step_are_refused() -> None:
    with pytest.raises(BadInput, match=r"1 at most together, not 1\.5"):
        rows(history(plan(), np.random.default_rng(0)), Step(1, 1, {"forward": 1.5}))
