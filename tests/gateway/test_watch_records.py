"""A day of traffic is a run: the same rows, read by the same verbs, ranked by nothing, readable after a crash."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from twinlens.gateway.asked import Asked
from twinlens.gateway.backend import Backend
from twinlens.gateway.outcome import Attempt, Outcome
from twinlens.gateway.routing.route import Band, Candidate, Route
from twinlens.gateway.watch.columns import request_rows
from twinlens.gateway.watch.day import Day, Front, routes_of
from twinlens.gateway.watch.records import Records
from twinlens.measurement.summary_file import summary_of
from twinlens.record.store import read_run
from twinlens.reporting.run.next_step import next_step
from twinlens.reporting.run.subject import workload_words
from twinlens.reporting.wording.finding import sentence_of
from twinlens.schedule.trace_file import read_trace
from twinlens.spec.load import parse
from twinlens.spec.source.attached import source_of
from twinlens.spec.workload.arrival import Trace

FRONT = Front("http://127.0.0.1:8080/v1", ({"name": "a", "url": "http://127.0.0.1:1/v1"},))
MS = 1_000_000
ASKED = Asked("chat", "m", {"messages": [{"role": "user", "content": "a secret"}]}, True, True, 8, 8, 0, False)


def attempt(name: str, begin_ns: int, **more: Any) -> Attempt:
    candidates = (Candidate(name, 2, Band(0.02, 0.01, 0.04), cost=0.5), Candidate("z", 0, out="not the one measured"),
                  Candidate("y", 1))  # fmt: skip
    return Attempt(name, Route(Backend(name, "http://127.0.0.1:1/v1"), candidates, "least", 60.0), begin_ns, **more)


def answered(at_ns: int, number: int = 1, **more: Any) -> Outcome:
    """An answer of 4 events that the backend counted as 6 tokens, 20 ms after it was asked for, by the second try."""
    tries = [attempt("a", at_ns + MS, end_ns=at_ns + 2 * MS, failure="connect"),
             attempt("b", at_ns + 3 * MS, first_ns=at_ns + 20 * MS)]  # fmt: skip
    usual: dict[str, Any] = {
        "asked": ASKED, "model": "m", "attempts": tries, "end_ns": at_ns + 60 * MS, "input_tokens": 3,
        "output_tokens": 6, "chunk_ns": [at_ns + t * MS for t in (20, 30, 50)], "chunk_tokens": [1, 1, 2],
        "money": Decimal("0.00012"),
    }  # fmt: skip
    return Outcome(f"r-{number}", "team", at_ns, **usual | more)


def test_an_outcome_is_a_row_of_the_schema_of_measured_runs() -> None:
    left = answered(5 * MS, ending="left", output_tokens=None, input_tokens=None, error="the client left", status=499)
    refused = Outcome("r-3", "", 9 * MS, end_ns=10 * MS, ending="refused", status=429, error="too many")
    rows = request_rows([answered(4 * MS), left, refused], 7, 2 * MS).to_pylist()
    first, second, third = rows
    assert [each["group"] for each in rows] == [7, 8, 9]
    assert (first["intended_ns"], first["sent_ns"], first["end_ns"]) == (2 * MS, 3 * MS, 62 * MS)
    assert first["chunk_ns"] == [22 * MS, 32 * MS, 52 * MS]
    assert first["chunk_tokens"] == [1, 1, 4]  # the two that no event showed are with the last chunk
    assert (first["input_tokens"], first["output_tokens"], first["asked_tokens"]) == (3, 6, 8)
    assert (second["outcome"], second["output_tokens"], second["input_tokens"]) == ("cut_off", 4, None)
    assert (third["outcome"], third["status"], third["chunk_ns"], third["error"]) == ("refused", 429, [], "too many")


def test_a_day_is_read_like_any_run_and_ranked_by_nothing(tmp_path: Path) -> None:
    records = Records(tmp_path, FRONT)
    begun_ns = time.monotonic_ns()
    for number in range(30):
        records.add(answered(begun_ns + number * 100 * MS, number))
    records.add(Outcome("r-x", "team", begun_ns + MS, end_ns=begun_ns + 2 * MS, ending="refused", status=402))
    records.close()
    (folder,) = [each.parent for each in tmp_path.glob("*/run.json")]
    run = read_run(folder)
    assert (run.state, run.place, len(run.requests), run.requests.ok.sum()) == ("finished", "elsewhere", 31, 30)
    assert run.requests.disorder() == ""
    assert (folder / "summary.json").exists()
    summary = summary_of(run)
    assert summary.validity == "not valid"
    assert summary.metrics["ttft_s_p50"].value == 0.02
    assert run.facts is not None
    assert "through a gateway in front of 1 backend" in sentence_of(run.facts.findings[0])
    assert next_step(run, summary) == f"Ask the same of a server again: twinlens measure {folder} --url ADDRESS"
    assert workload_words(run, summary).startswith("serving: as clients asked · 31 requests · ")
    routes = routes_of(folder).to_pylist()
    assert [each["group"] for each in routes] == list(range(31))
    assert (routes[0]["attempts"], routes[0]["failures"], routes[0]["key"]) == (["a", "b"], ["connect", ""], "team")
    assert (routes[0]["candidates"], routes[0]["out"][1]) == (["a", "z", "y"], "not the one measured")
    assert routes[0]["ttft_s_low"][0] == 0.01
    assert math.isnan(routes[0]["ttft_s_low"][1])  # nothing was predicted
    assert (routes[30]["attempts"], routes[30]["ending"], routes[30]["money"]) == ([], "refused", None)
    assert not any(b"a secret" in each.read_bytes() for each in folder.iterdir())


def test_a_day_can_be_asked_again_as_it_came(tmp_path: Path) -> None:
    records = Records(tmp_path, FRONT)
    begun_ns = time.monotonic_ns()
    for number, made in ((0, 6), (1, 3), (2, 7)):
        records.add(answered(begun_ns + number * 250 * MS, number, output_tokens=made))
    uncounted = answered(begun_ns + 100 * MS, 3, input_tokens=None, ending="left")
    refused = Outcome("r-4", "team", begun_ns + 200 * MS, end_ns=begun_ns + 201 * MS, ending="refused", status=402)
    records.add(uncounted)
    records.add(refused)
    records.close()
    (folder,) = [each.parent for each in tmp_path.glob("*/run.json")]
    (spec,) = parse(source_of(folder).data, where="a day").runs()
    assert spec.workload.arrival == Trace(path=str(folder), format="run")
    recorded = read_trace(spec.workload.arrival, spec.protocol.duration_s, prompt_seed=3)
    asked = [(each.intended_ns, each.input_tokens, each.output_tokens) for each in recorded.plan]
    assert asked == [(0, 3, 6), (250 * MS, 3, 3), (500 * MS, 3, 7)]
    assert recorded.unusable == 2, "nobody counted the prompt of one, and nothing came of the other"


def test_rows_of_a_gateway_that_was_killed_are_readable(tmp_path: Path) -> None:
    records = Records(tmp_path, FRONT)
    records.add(answered(time.monotonic_ns()))
    while not records.folders:
        time.sleep(0.01)
    run = read_run(records.folders[0])
    assert (run.state, len(run.requests)) == ("running", 1)
    assert np.array_equal(run.requests.chunk_tokens, [1, 1, 4])
    records.close()


def test_a_new_day_is_a_new_run_and_a_late_answer_is_of_the_day_that_asked(tmp_path: Path) -> None:
    before_midnight_s = 1_800_057_600.0 - 1.0
    shift_s = before_midnight_s - time.time()
    records = Records(tmp_path, FRONT, longest_s=3600.0, wall_s=lambda: time.time() + shift_s)
    now_ns = time.monotonic_ns()
    records.add(answered(now_ns))
    records.add(answered(now_ns + 5_000 * MS))
    records.add(answered(now_ns + 2 * MS, end_ns=now_ns + 20_000 * MS))
    records.close()
    runs = sorted((read_run(each.parent) for each in tmp_path.glob("*/run.json")), key=lambda run: run.spec.name)
    assert [run.spec.name for run in runs] == ["traffic-2027-01-15", "traffic-2027-01-16"]
    assert [len(run.requests) for run in runs] == [2, 1]
    assert runs[1].requests.intended_ns[0] < 4_100 * MS  # from midnight on


def test_a_disk_that_is_full_loses_rows_and_says_so(tmp_path: Path) -> None:
    place = tmp_path / "a file"
    place.write_text("no folder")
    records = Records(place, FRONT)
    records.add(answered(time.monotonic_ns()))
    records.close()
    assert records.lost == 1
    assert records.trouble


def test_a_day_that_is_over_is_summarised_by_a_process_of_its_own(tmp_path: Path) -> None:
    now_ns = time.monotonic_ns()
    day = Day(tmp_path, "2027-01-15", FRONT, [answered(now_ns)], now_ns)
    day.end(waits=False)
    until_s = time.monotonic() + 60
    while not (day.folder / "summary.json").exists() and time.monotonic() < until_s:
        time.sleep(0.05)
    assert read_run(day.folder).is_finished
    assert (day.folder / "summary.json").exists()
