from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from report_material import inference_run, training_run
from twinlens.reporting.chart.series import distribution, steady_times, thin, throughput


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000), st.sampled_from([10, 100, 500]))
def test_thinning_keeps_the_extremes_and_the_order(values: list[float], most: int) -> None:
    x, y = np.arange(len(values), dtype=float), np.array(values)
    kept_x, kept_y = thin(x, y, most)
    assert kept_x.size <= max(most, 1)
    assert kept_y.min() == y.min()
    assert kept_y.max() == y.max()
    assert (np.diff(kept_x) > 0).all()


def test_a_distribution_of_four_values_by_hand() -> None:
    x, share = distribution(np.array([4.0, 1.0, 3.0, 2.0]))
    assert x.tolist() == [1, 2, 3, 4]
    assert share.tolist() == [0.25, 0.5, 0.75, 1.0]


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=1000))
def test_a_thinned_distribution_still_ends_at_one(values: list[float]) -> None:
    x, share = distribution(np.array(values))
    assert x.size <= 160
    assert share[-1] == 1.0
    assert (np.diff(share) > 0).all()


def test_a_batch_of_requests_is_one_point(tmp_path: Path) -> None:
    run, _ = inference_run(tmp_path, "fp32", rows=30, batch=4)
    at_s, rate = throughput(run)
    assert at_s.size == 30
    first = run.requests
    took_s = (first.end_ns[0] - first.sent_ns[0]) / 1e9
    assert rate[0] == 4 * 32 / took_s


def test_evaluations_are_no_training_steps(tmp_path: Path) -> None:
    run, summary = training_run(tmp_path, "fp32", rows=60)
    assert throughput(run)[0].size == 60
    assert steady_times([(run, summary)], "step").max() < 2


def test_a_run_without_rows_has_no_throughput(tmp_path: Path) -> None:
    run, summary = inference_run(tmp_path, rows=0, state="running")
    assert throughput(run)[0].size == 0
    assert steady_times([(run, summary)], "ttft").size == 0
