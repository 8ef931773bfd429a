"""Searches over machines whose limit is known: a queue in virtual time, and one real server."""

from __future__ import annotations

import json
import math
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executors.hostile_server import Asked, hostile
from executors.hostile_server import answer as good
from material import fixed, inference, study_of
from twinlens.errors import ExecutorFailed, Interrupted
from twinlens.measurement.event import Event
from twinlens.measurement.search import measure_search, unfinished_search
from twinlens.measurement.search_from_rows import searches_of
from twinlens.measurement.study import Outcome
from twinlens.record.beside import SearchResult, read_search
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.study import Study

SERVICE_S, LIMIT_S = 0.01, 0.05


def queue(*settings: str, **parts: Any) -> Study:
    """One request at a time, ten milliseconds each, Poisson arrivals: M/D/1, whatever the machine."""
    asked = {
        "arrival": {"kind": "poisson"},
        "slo": {"e2e_latency_s": LIMIT_S, "quantile": 0.9},
        "options": {"a_s": 0.005, "b_s": 0.0, "c_s": 0.001, "d_s": 0.0},
        "point": {"admission": "continuous", "in_flight": 1},
        "protocol": {"duration_s": 60.0, "telemetry_s": 60.0},
    }
    return study_of(inference("fake", **(asked | parts)) | {"search": {"start": 20.0}}, *settings)


def answer(study: Study, out: Path, **more: Any) -> tuple[Outcome, SearchResult]:
    outcome = measure_search(study, out, **more)
    record = read_search(outcome.folder)
    assert record is not None
    (found,) = record.results
    return outcome, found


def share_within(rate_per_s: float, count: int = 400_000) -> float:
    """The share of an M/D/1 queue's requests that stay at most LIMIT_S (Lindley's recursion, as a running minimum)."""
    gaps = np.random.default_rng(5).exponential(1 / rate_per_s, count)
    walk = np.concatenate([[0.0], np.cumsum(SERVICE_S - gaps[1:])])
    wait_s = walk - np.minimum.accumulate(walk)
    return float(np.mean(wait_s + SERVICE_S <= LIMIT_S + 1e-9))


def test_the_interval_holds_the_rate_at_which_a_queue_leaves_its_slo(tmp_path: Path) -> None:
    outcome, found = answer(queue("search.width=0.25"), tmp_path)
    # Runs of 4,000 requests cannot tell every rate from the limit; what they cannot tell stays inside the interval.
    assert found.outcome in ("narrow", "unclear")
    assert "95% confidence" in clause_of(found.reason)
    assert found.low is not None
    assert found.high is not None
    assert share_within(found.low) > 0.9 > share_within(found.high)
    assert found.high <= found.low * 1.6
    assert len(outcome.runs) == len(found.tried)
    assert all(trial.shares["e2e_latency_s"][1] >= 1 for trial in found.tried)
    for trial in found.tried:  # each in three digits, each a run of its own
        assert float(f"{trial.value:.3g}") == trial.value
    assert len({run.spec.fingerprint() for run in outcome.runs}) == len(found.tried)


def test_a_rate_beyond_capacity_fails_as_overload(tmp_path: Path) -> None:
    _, found = answer(queue("search.start=300", "search.most_points=1"), tmp_path)
    (only,) = found.tried
    assert (only.verdict, only.label) == ("fail", "overload")
    assert (found.low, found.high, found.outcome) == (None, 300.0, "budget")


def test_concurrency_is_searched_in_whole_numbers_and_ends_at_neighbours(tmp_path: Path) -> None:
    # One at a time behind the door: n in flight stay n · 10 ms, so five keep 50 ms and six do not.
    closed = queue('search.over="concurrency"', "search.start=1", arrival={"kind": "closed"},
                   protocol={"duration_s": 20.0, "telemetry_s": 60.0})  # fmt: skip
    _, found = answer(closed, tmp_path)
    assert (found.low, found.high, found.outcome) == (5.0, 6.0, "narrow")
    assert "requests in flight" in clause_of(found.reason)


def test_each_point_of_the_sweep_has_a_search_of_its_own(tmp_path: Path) -> None:
    outcome = measure_search(queue("search.most_points=2", sweep={"precision": ["fp32", "bf16"]}), tmp_path)
    (record,) = searches_of(outcome.runs)
    assert [(one.where, len(one.tried)) for one in record.results] == [
        ({"precision": "fp32"}, 2),
        ({"precision": "bf16"}, 2),
    ]


@pytest.mark.slow
def test_an_interrupted_search_goes_on_and_measures_nothing_twice(tmp_path: Path) -> None:
    study = queue("search.width=0.25")

    def stop(event: Event) -> None:
        if event.number == 4:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        measure_search(study, tmp_path, stop)
    folder = unfinished_search(study, tmp_path)
    assert folder is not None
    before = read_search(folder)
    assert before is not None
    assert [one.outcome for one in before.results] == ["running"]
    kept = [one.run for one in before.results[0].tried]
    assert len(kept) == 3

    outcome, found = answer(study, tmp_path)
    assert outcome.folder == folder
    assert outcome.resumed == 3
    assert [one.run for one in found.tried][:3] == kept
    assert found.is_over
    whole, alone = answer(study, tmp_path / "at once")
    assert [(one.value, one.verdict) for one in found.tried] == [(one.value, one.verdict) for one in alone.tried]
    assert (found.low, found.high) == (alone.low, alone.high)
    assert unfinished_search(study, tmp_path) is None
    assert whole.folder != folder


def test_search_json_is_rebuilt_from_the_runs_alone(tmp_path: Path) -> None:
    study = queue("search.most_points=4")
    outcome, found = answer(study, tmp_path)
    (outcome.folder / "search.json").unlink()
    again, rebuilt = answer(study, tmp_path)
    assert again.folder == outcome.folder
    assert rebuilt == found


def test_an_edited_search_is_shown_as_its_runs_have_it(tmp_path: Path) -> None:
    outcome, found = answer(queue("search.most_points=4"), tmp_path)
    (record,) = searches_of(outcome.runs)
    assert record.results == (found,)
    path = outcome.folder / "search.json"
    data = json.loads(path.read_text())
    (edited,) = data["found"]
    edited["low"], edited["high"], edited["outcome"] = 900.0, 950.0, "narrow"
    edited["reason"]["numbers"] |= {"low": 900.0, "high": 950.0}
    for trial in edited["tried"]:
        trial |= {"verdict": "pass", "value": 900.0, "shares": {"e2e_latency_s": [1.0, 10_000]}}
    path.write_text(json.dumps(data))
    (record,) = searches_of(outcome.runs)
    (again,) = record.results
    assert (again.tried, again.low, again.high) == (found.tried, found.low, found.high)
    assert again.reason.numbers["high"] == found.high


def test_the_budget_of_seconds_counts_what_runs_took_and_begins_none_that_does_not_fit(tmp_path: Path) -> None:
    clock = iter(range(0, 10_000, 70))  # each run takes 70 s by this clock, of which 60 under load
    _, found = answer(queue("search.budget_s=200"), tmp_path, now_s=lambda: float(next(clock)))
    assert [trial.took_s for trial in found.tried] == [70.0, 70.0]
    assert found.outcome == "budget"
    assert "200 s" in clause_of(found.reason)
    assert "at least 40 requests/s" in clause_of(found.reason)


def test_progress_says_the_rate_and_what_is_known(tmp_path: Path) -> None:
    heard: list[Event] = []
    measure_search(queue("search.most_points=3"), tmp_path, heard.append)
    assert {event.total for event in heard} == {3}
    said = {event.number: event.phrase for event in heard}
    assert said[1].startswith("at 20 requests/s (not known yet)")
    assert said[3].startswith("at 80 requests/s (at least 40 requests/s)")


@pytest.mark.parametrize("tries", [1, 2])
def test_a_client_that_was_too_slow_ends_the_search_and_is_named(tmp_path: Path, tries: int) -> None:
    study = queue("search.most_points=3", f"search.tries={tries}")
    first, found = answer(study, tmp_path)
    run = next(run for run in first.runs if run.id == found.tried[1].run)
    record = json.loads((run.folder / "run.json").read_text())
    # As if a client over a network had made that run, one that takes hardly more than was asked of it.
    record["client"] = {"stamps": "kernel", "merged_reads": 0}
    record["calibration"] = {"ceiling_tokens_per_s": 100.0, "added_latency_s": 0.0, "lag_s_p99": 0.0}
    (run.folder / "run.json").write_text(json.dumps(record))
    (run.folder / "summary.json").unlink()
    (first.folder / "search.json").unlink()
    shutil.rmtree(next(one.folder for one in first.runs if one.id == found.tried[2].run))
    _, again = answer(study, tmp_path)
    if tries == 2:  # once may be a neighbour's doing: the same value is measured again, and passes
        assert [(one.value, one.verdict) for one in again.tried][1:] == [(40.0, "invalid"), (40.0, "pass")]
        assert again.low == 40.0
        return
    assert again.outcome == "invalid"
    assert again.is_over
    assert [one.verdict for one in again.tried] == ["pass", "invalid"]
    assert again.low == 20.0
    assert "the client was the limit, not the server" in clause_of(again.reason)


def test_a_run_that_fails_stops_its_search_and_is_tried_again_later(tmp_path: Path) -> None:
    broken = queue(options={"a_s": 0.01, "b_s": 0.0, "c_s": 0.0, "d_s": 0.0, "fail_at": 3})
    outcome, found = answer(broken, tmp_path)
    assert isinstance(outcome.failures[0], ExecutorFailed)
    assert found.outcome == "failed"
    assert not found.is_over
    assert "the run at 20 requests/s failed" in clause_of(found.reason)
    assert unfinished_search(broken, tmp_path) == outcome.folder


@pytest.mark.trial
@pytest.mark.slow
def test_a_real_server_of_known_capacity_is_bracketed(tmp_path: Path) -> None:
    turn, service_s = threading.Lock(), 0.035
    free_at_s = 0.0

    def one_at_a_time(asked: Asked) -> None:
        nonlocal free_at_s
        # By the clock, not by sleeps: a busy machine does not take from 28.6 requests/s, whoever wakes late.
        with turn:
            now_s = time.monotonic()
            free_at_s = max(free_at_s, now_s) + service_s
            wait_s = free_at_s - now_s
        asked.wait(wait_s + 0.3)  # and what takes no turn: the client's lateness is small beside it
        asked.send(good(asked.tokens))

    with hostile(one_at_a_time) as server:
        data = inference(
            "openai-http", arrival={"kind": "constant"}, slo={"ttft_s": 0.8, "quantile": 0.5}, output_tokens=fixed(1),
            options={"url": server.url}, protocol={"duration_s": 6.0, "telemetry_s": 1.0, "isolate": True},
        )  # fmt: skip
        outcome, found = answer(study_of(data | {"search": {"start": 20.0, "width": 1.0}}), tmp_path)
    # Where other programs hold the client back a run says nothing, and says so. What is said is never wrong.
    assert all(run.is_finished for run in outcome.runs)
    assert found.tried, "nothing was tried"
    assert not [one for one in found.tried if one.verdict == "pass" and one.value * service_s > 1]
    assert not [one for one in found.tried if one.verdict == "fail" and one.value * service_s < 1]
    assert (found.low or 0.0) * service_s < 1 < (found.high or math.inf) * service_s
    assert found.outcome != "narrow" or (found.high or math.inf) <= 2 * (found.low or 0.0)  # the width that was asked
