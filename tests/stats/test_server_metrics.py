"""What a server said of itself, over the window of a run: worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from served_rows import columns, row
from server_samples import samples
from twinlens.record.estimate import Estimate
from twinlens.record.samples import COUNTERS, SERVER_SCHEMA, ServerReading
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.server.agreement import ServerRows
from twinlens.stats.server.metrics import ServerFigures, server_figures
from twinlens.stats.serving.window import Window

REQUESTS = columns(row(1000.0 * i, [1000.0 * i + 20, 1000.0 * i + 40]) for i in range(10))
WINDOW = Window(np.arange(10), 2_000_000_000, 8_000_000_000, 0, 10, "flat", "valid", "steady")


def figures(rows: list[dict[str, Any]], slots: int | None = None, window: Window = WINDOW) -> ServerFigures:
    return server_figures(samples(rows), ServerReading(), REQUESTS, window, slots)


def metrics(rows: list[dict[str, Any]], slots: int | None = None) -> dict[str, Estimate]:
    return figures(rows, slots).metrics


def grown(of: str, per_s: float, **more: float) -> list[dict[str, Any]]:
    """Counters that grow evenly, read every half second from -0.5 s to 10 s."""
    rates = {of: per_s} | more
    return [{"at": i / 2} | {name: round(1000 + rate * i / 2) for name, rate in rates.items()} for i in range(-1, 21)]


def test_gauges_are_averaged_inside_the_window_only() -> None:
    rows = [{"at": i, "running": 4 if 2 <= i <= 8 else 100, "waiting": i % 2, "kv_use": 0.5} for i in range(11)]
    by_id = metrics(rows)
    assert (by_id["server_running_mean"].value, by_id["server_running_max"].value) == (4.0, 4.0)
    assert by_id["server_running_mean"].n == 7
    assert by_id["server_waiting_mean"].value == pytest.approx(3 / 7)
    assert by_id["server_waiting_max"].value == 1.0
    assert by_id["server_kv_use_max"].value == 0.5
    assert by_id["server_waiting_mean"].low is None
    assert "there are 7" in by_id["server_waiting_mean"].lacks


def test_the_mean_of_a_gauge_has_an_interval_from_a_hundred_readings_on_and_none_below_zero() -> None:
    rows = [{"at": 2 + i / 20, "waiting": float(i % 40 == 0)} for i in range(120)]
    found = metrics(rows)["server_waiting_mean"]
    assert found.low is not None
    assert 0 <= found.low < found.value


def test_counters_are_subtracted_inside_the_window() -> None:
    by_id = metrics(grown("preemptions", 2.0))
    assert by_id["server_preemptions"].value == 12.0  # two a second for six seconds
    assert by_id["server_preemptions"].n == 12


def test_ratios_are_those_of_the_differences_and_not_of_the_totals() -> None:
    rows = grown("prefix_queries", 100, prefix_hits=25, draft_tokens=40, accepted_tokens=30)
    by_id = metrics(rows)
    assert by_id["prefix_hit_ratio"].value == pytest.approx(0.25, abs=0.01)
    assert by_id["draft_acceptance"].value == pytest.approx(0.75, abs=0.01)
    assert by_id["prefix_hit_ratio"].no_interval
    rows = [{"at": 2 + i / 20, "prefix_queries": 50 * i, "prefix_hits": 12 * i} for i in range(120)]
    assert metrics(rows)["prefix_hit_ratio"].level == 0.95


def test_batching_efficiency_is_useful_tokens_of_slots_times_steps() -> None:
    rows = grown("generation_tokens", 300, iterations=50, iteration_tokens=450)
    by_id = metrics(rows, slots=8)
    # 300 tokens/s from 50 steps/s are 6 a step, of 8 that fit.
    assert by_id["batching_efficiency"].value == pytest.approx(0.75)
    assert by_id["tokens_per_iteration"].value == pytest.approx(9.0)
    assert "of 8" in by_id["batching_efficiency"].method


def test_slots_come_from_the_page_where_the_facts_do_not_say_them() -> None:
    rows = [one | {"slots": 12} for one in grown("generation_tokens", 300, iterations=50)]
    assert metrics(rows)["batching_efficiency"].value == pytest.approx(0.5)
    assert metrics(rows, slots=6)["batching_efficiency"].value == pytest.approx(1.0)


def test_without_slots_batching_efficiency_says_so() -> None:
    found = metrics(grown("generation_tokens", 300, iterations=50))["batching_efficiency"]
    assert (found.value, found.reason) == (None, "the server does not say how many requests may run at once")


def test_means_of_histograms_are_sums_over_counts_of_the_window() -> None:
    rows = [
        {
            "at": i / 2,
            "ttft_sum_s": 100.0 + 0.3 * i,
            "ttft_count": 50 + 2 * i,
            "queue_sum_s": 0.0,
            "queue_count": i + 1,
        }
        for i in range(-1, 21)
    ]
    by_id = metrics(rows)
    assert by_id["server_ttft_s_mean"].value == pytest.approx(0.15)
    assert by_id["server_queue_s_mean"].value == 0.0


@pytest.mark.parametrize("phase", ["prefill", "decode", "e2e", "itl"])
def test_each_phase_has_its_mean_in_the_window_and_none_where_it_is_not_said(phase: str) -> None:
    rows = [{"at": i / 2, f"{phase}_sum_s": 7.0 + 0.4 * i, f"{phase}_count": 5 + 4 * i} for i in range(-1, 21)]
    found = {name: metrics(rows)[f"server_{name}_s_mean"] for name in ("prefill", "decode", "e2e", "itl")}
    assert found.pop(phase).value == pytest.approx(0.1)
    assert {(one.value, one.reason) for one in found.values()} == {(None, "the server does not say it")}


def test_what_did_not_happen_in_the_window_has_no_ratio() -> None:
    by_id = metrics(grown("draft_tokens", 0, accepted_tokens=0, iterations=0, iteration_tokens=0))
    assert by_id["draft_acceptance"].reason == "nothing was drafted"
    assert by_id["tokens_per_iteration"].reason == "the engine made no step"


def test_what_a_server_does_not_say_is_absent_and_the_rest_is_there() -> None:
    by_id = metrics([{"at": i, "running": 1} for i in range(11)])
    assert by_id["server_running_mean"].value == 1.0
    for name in ("server_kv_use_mean", "server_preemptions", "prefix_hit_ratio", "server_ttft_s_mean"):
        assert (by_id[name].value, by_id[name].reason) == (None, "the server does not say it")


def test_a_restart_inside_the_window_leaves_no_differences_and_a_note() -> None:
    rows = grown("generation_tokens", 300, iterations=50, preemptions=1)
    reset = [one | {name: one[name] - 1000 for name in one if name != "at"} if one["at"] > 5 else one for one in rows]
    told = figures(reset, slots=8)
    found = told.metrics["batching_efficiency"]
    assert found.value is None
    assert found.reason == "the server was started again in mid-run (seen at 5.5 s): its counters started from zero"
    assert told.metrics["server_preemptions"].value is None
    assert "The server restarted during the run (its counters fell; seen at 5.5 s)." in map(sentence_of, told.notes)


def test_a_restart_outside_the_window_does_not_touch_it() -> None:
    rows = grown("preemptions", 2.0)
    reset = [one | {"preemptions": one["preemptions"] - 1000} if one["at"] > 9 else one for one in rows]
    told = figures(reset)
    assert told.metrics["server_preemptions"].value == 12.0
    assert len(told.notes) == 1


def test_readings_that_failed_are_counted_and_left_out() -> None:
    rows = grown("preemptions", 2.0)
    rows[7] = {"at": rows[7]["at"], "error": "the metrics page does not answer (timed out)"}
    told = figures(rows)
    assert told.metrics["server_preemptions"].value == 12.0
    assert tuple(map(sentence_of, told.notes)) == (
        "1 of 22 readings of the server's metrics failed, the last one: the metrics page does not answer (timed out).",
    )


def test_a_server_without_a_page_has_every_metric_absent_for_one_reason() -> None:
    nothing = samples([])
    told = server_figures(nothing, ServerReading(reason="the server has no metrics page (404)"), REQUESTS, WINDOW, 8)
    assert {found.reason for found in told.metrics.values()} == {"the server has no metrics page (404)"}
    assert tuple(map(sentence_of, told.notes)) == (
        "The server's own metrics are not measured: the server has no metrics page (404).",
    )


def test_a_window_without_a_reading_says_so() -> None:
    told = figures([{"at": -1.0, "running": 3}, {"at": 20.0, "running": 3}])
    assert told.metrics["server_running_mean"].reason == "there is no reading inside the window"


def test_a_reading_that_ended_early_is_said() -> None:
    told = server_figures(
        samples(grown("running", 0)), ServerReading(reason="OSError: no space left"), REQUESTS, WINDOW, None
    )
    assert "Reading the server's metrics stopped: OSError: no space left." in map(sentence_of, told.notes)


def test_the_same_metrics_come_with_and_without_a_page_and_all_are_defined() -> None:
    with_page = figures(grown("running", 0)).metrics
    without = server_figures(samples([]), ServerReading(), REQUESTS, WINDOW, None).metrics
    assert (
        set(with_page)
        == set(without)
        == {
            id
            for id, known in METRICS.items()
            if known.group == "server" and id != "planned_hit_ratio"  # of the plan
        }
    )
    for id, found in (with_page | without).items():
        assert found.unit == METRICS[id].unit


@given(
    st.lists(st.integers(0, 1000), min_size=2, max_size=40),
    st.integers(1, 30),
)
def test_differences_are_never_negative_whatever_restarts_there_are(steps: list[int], every: int) -> None:
    total, rows = 0, []
    for number, step in enumerate(steps):
        total = 0 if number % every == every - 1 else total + step
        rows.append({"at": number / 4, "preemptions": total, "prefix_queries": total, "prefix_hits": total // 2})
    found = server_figures(samples(rows), ServerReading(), REQUESTS, replace(WINDOW, begin_ns=0), None).metrics
    for name in ("server_preemptions", "prefix_hit_ratio"):
        value = found[name].value
        assert value is None or value >= 0


def test_columns_have_one_type_each_and_counters_are_known() -> None:
    rows = ServerRows.from_table(samples([{"at": 0, "kv_use": 0.5, "finished": 3}]))
    assert rows.known("kv_use").tolist() == [0.5]
    assert rows.known("finished").tolist() == [3.0]
    assert set(COUNTERS) < set(SERVER_SCHEMA.names)


def test_with_speculation_tokens_do_not_say_how_full_a_batch_was() -> None:
    """Half of eight slots were busy and 98.6 % was said, as each step made nearly two tokens for a slot."""
    rows = grown("generation_tokens", 395, iterations=50, draft_tokens=250)
    found = metrics(rows, slots=8)["batching_efficiency"]
    assert found.value is None
    assert "speculation" in found.reason
    idle = grown("generation_tokens", 200, iterations=50, draft_tokens=0)
    assert metrics(idle, slots=8)["batching_efficiency"].value == pytest.approx(0.5)
