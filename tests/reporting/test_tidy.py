"""Metrics as flat rows: nothing is lost, nothing is made up, and every row has the same columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from material import for_rows, inference, measured, training
from twinlens.measurement.summary_file import summary_of
from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.reporting.tidy import COLUMNS, tidy_rows


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    out = tmp_path_factory.mktemp("tidy")
    return [measured(out, make("fake", protocol=for_rows(60))) for make in (training, inference)]


def test_every_metric_of_every_run_is_one_row_with_all_columns(runs: list[Run]) -> None:
    summaries = [summary_of(run) for run in runs]
    rows = tidy_rows(summaries)
    assert [(row["run"], row["metric"]) for row in rows] == [(s.run, name) for s in summaries for name in s.metrics]
    assert all(tuple(row) == COLUMNS for row in rows)


def test_an_estimate_can_be_made_of_its_row_again(runs: list[Run]) -> None:
    summary = summary_of(runs[0])
    parts = ("value", "unit", "method", "origin", "low", "high", "level", "n", "reason", "no_interval", "seen", "runs")
    for row in tidy_rows([summary]):
        assert Estimate(**{part: row[part] for part in parts}) == summary.metrics[row["metric"]]


def test_what_was_not_measured_has_no_value_and_a_reason(runs: list[Run]) -> None:
    absent = [row for row in tidy_rows(map(summary_of, runs)) if row["value"] is None]
    assert absent
    assert all(row["reason"] and row["low"] is None and row["high"] is None for row in absent)


def test_a_row_says_at_which_point_and_whether_its_run_may_be_ranked(runs: list[Run], tmp_path: Path) -> None:
    row = tidy_rows([summary_of(runs[0])])[0]
    assert (row["precision"], row["global_batch"], row["seq_len"], row["batch"]) == ("fp32", 4, 32, None)
    assert (row["state"], row["label"], row["validity"]) == ("finished", summary_of(runs[0]).label, "valid")
    drifting = measured(tmp_path, training("fake", protocol=for_rows(60), options={"drift": 9.0}))
    assert {(row["label"], row["validity"]) for row in tidy_rows([summary_of(drifting)])} == {("drift", "not valid")}


def test_no_runs_are_no_rows() -> None:
    assert tidy_rows([]) == []
