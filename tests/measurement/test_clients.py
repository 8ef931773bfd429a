"""Several client processes on one machine: one load, one stream of rows, and nothing lost or left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from material import command, fixed, inference, measured, quiet, run_json, spec_of, study_of
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.measurement.client.calibrate import needed_clients, refuse_overload, typical_answer_tokens
from twinlens.measurement.client.clock import Offset, bound_over, measured_offset
from twinlens.measurement.client.coordinate import Coordinator, RowMerge
from twinlens.measurement.client.messages import packed, unpacked
from twinlens.measurement.client.pool import await_ready, jobs_for
from twinlens.measurement.client.process import ClientProcess
from twinlens.measurement.summary_file import summary_of
from twinlens.network.null_server import null_server
from twinlens.network.target import ClientPool, client_pool_of
from twinlens.record.client import Calibration, LagCount
from twinlens.record.request import REQUEST_SCHEMA, Request
from twinlens.record.run import Run
from twinlens.record.store import find_runs
from twinlens.reporting.wording.finding import clause_of
from twinlens.schedule.build import planned_load
from twinlens.spec.load import dump
from twinlens.spec.study import RunSpec
from twinlens.system.interrupts import ignore_interrupts, interrupt_once

POISSON: dict[str, Any] = {"arrival": {"kind": "poisson"}, "point": {"rate_per_s": 100.0}}
CLOSED: dict[str, Any] = {"arrival": {"kind": "closed"}, "point": {"concurrency": 5}}


def asked(url: str, load: dict[str, Any], seconds: float = 1.0, **options: Any) -> dict[str, Any]:
    protocol = {"duration_s": seconds, "min_rows": 1}
    return inference("openai-http", options={"url": url} | options, protocol=protocol, **load)


@contextmanager
def pool(spec: RunSpec, count: int, kind: type[ClientProcess] = ClientProcess) -> Iterator[tuple[Any, list[Any]]]:
    """A server's clients, ready to play."""
    server = OpenAIServer()
    clients: list[ClientProcess] = []
    try:
        server.open(spec, quiet)
        jobs = jobs_for(spec, planned_load(spec).plan, server.network_client.endpoint(), count)
        clients += [kind(f"client {job.share.index}", job) for job in jobs]
        for client in clients:
            client.start()
        await_ready(clients)
        yield jobs, clients
    finally:
        for client in clients:
            client.close()
        server.close()


During = Callable[[list[ClientProcess], list[pa.Table]], None]


def played(spec: RunSpec, count: int, during: During = lambda clients, tables: None) -> Any:
    """The rows of a spec as they were written, and how the clients did. `during` is shown the rows so far."""
    tables: list[pa.Table] = []
    with pool(spec, count) as (jobs, clients):
        together = Coordinator(jobs, clients, tables.append, lambda now_ns: during(clients, tables))
        together.play(lambda origin_ns: None)
    assert not any(psutil.pid_exists(client.pid) for client in clients)
    return pa.concat_tables(tables), together


def killed_once(index: int) -> During:
    """Kills one client once it has reported rows, however long that took."""
    done: list[int] = []

    def during(clients: list[ClientProcess], tables: list[pa.Table]) -> None:
        if not done and any(index in table.column("client").to_pylist() for table in tables):
            done.append(index)
            os.kill(clients[index].pid, signal.SIGKILL)

    return during


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with null_server(ttft_s=0.02, itl_s=0.01) as server:
        yield server.url


def test_two_clients_play_the_plan_of_one(url: str) -> None:
    spec = spec_of(asked(url, POISSON))
    plan = planned_load(spec).plan
    assert plan is not None
    rows, together = played(spec, 2)
    rows = rows.sort_by("group")
    assert rows.column("group").to_pylist() == list(range(len(plan)))
    assert rows.column("intended_ns").to_pylist() == plan.intended_ns.tolist()
    assert rows.column("client").to_pylist() == [number % 2 for number in range(len(plan))]
    assert set(rows.column("outcome").to_pylist()) == {"ok"}
    assert (rows.column("sent_ns").to_numpy() >= plan.intended_ns).all(), "nothing is sent early"
    record = together.record()
    assert record["lost"] == []
    assert [client["rows"] for client in record["clients"]] == [(len(plan) + 1) // 2, len(plan) // 2]
    assert record["reads"] == sum(client["reads"] for client in record["clients"]) > 0
    assert record["lag_max_ns"] == max(client["lag_max_ns"] for client in record["clients"])
    assert record["clock_bound_ns"] is None, "one machine has one clock"


def test_rows_come_in_the_order_of_their_ends(url: str) -> None:
    rows, _ = played(spec_of(asked(url, CLOSED)), 2)
    assert (np.diff(rows.column("end_ns").to_numpy()) >= 0).all()
    by_client = [rows.filter(pa.compute.equal(rows.column("client"), client)) for client in (0, 1)]
    for part, slots in zip(by_client, (3, 2), strict=True):
        starts, ends = part.column("sent_ns").to_numpy(), np.sort(part.column("end_ns").to_numpy())
        in_flight = [(starts <= start).sum() - (ends <= start).sum() for start in starts]
        assert max(in_flight) == slots


def test_a_client_that_is_killed_takes_no_row_along(url: str) -> None:
    spec = spec_of(asked(url, POISSON, 1.2))
    plan = planned_load(spec).plan
    assert plan is not None
    rows, together = played(spec, 2, killed_once(1))
    assert sorted(rows.column("group").to_pylist()) == list(range(len(plan)))
    failed = rows.filter(pa.compute.equal(rows.column("outcome"), "failed"))
    assert set(failed.column("client").to_pylist()) == {1}
    assert set(failed.column("error").to_pylist()) == {"client 1 was lost: it was killed by signal 9 (SIGKILL)"}
    alive = rows.filter(pa.compute.equal(rows.column("client"), 0))
    assert set(alive.column("outcome").to_pylist()) == {"ok"}
    assert max(alive.column("intended_ns").to_pylist()) > 1e9, "the other goes on"
    assert len(failed) < rows.num_rows / 2, "what it had reported counts"
    (loss,) = together.record()["lost"]
    assert (loss["code"], loss["subject"]) == ("client-lost", "client 1")
    assert loss["numbers"]["how"] == "was killed by signal 9 (SIGKILL)"
    assert loss["numbers"]["requests"] == len(failed)
    assert loss["numbers"]["after_s"] > 0


def test_when_every_client_dies_the_run_fails_and_the_rows_are_there(url: str) -> None:
    spec = spec_of(asked(url, CLOSED, 30.0))
    tables: list[pa.Table] = []
    with pool(spec, 2) as (jobs, clients):

        def kill(now_ns: int) -> None:
            for client in clients if tables else []:
                if psutil.pid_exists(client.pid):
                    os.kill(client.pid, signal.SIGKILL)

        with pytest.raises(ExecutorFailed, match="every client was lost: client 0 was killed by signal 9") as failed:
            Coordinator(jobs, clients, tables.append, kill).play(lambda origin_ns: None)
    assert failed.value.code == "TL330"
    outcomes = pa.concat_tables(tables).column("outcome").to_pylist()
    assert outcomes.count("failed") == 5, "one for each slot"
    assert outcomes.count("ok") > 0


class ToldTwice(ClientProcess):
    """Ctrl-C reaches every process of a terminal, and the one that waits for this one passes it on."""

    def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        super().stop()


def test_an_interrupt_ends_all_clients_and_keeps_what_was_under_way(url: str) -> None:
    spec = spec_of(asked(url, CLOSED, 60.0))
    tables: list[pa.Table] = []

    def interrupt(now_ns: int) -> None:
        if now_ns > 5e8:
            os.kill(os.getpid(), signal.SIGINT)

    with pool(spec, 2, ToldTwice) as (jobs, clients), pytest.raises(KeyboardInterrupt):
        Coordinator(jobs, clients, tables.append, interrupt).play(lambda origin_ns: None)
    rows = pa.concat_tables(tables)
    failed = rows.filter(pa.compute.equal(rows.column("outcome"), "failed"))
    assert set(failed.column("error").to_pylist()) == {"the client was interrupted"}
    assert 0 < len(failed) <= 5
    assert "ok" in rows.column("outcome").to_pylist()


def tidied_in_spite_of_it(done: list[str]) -> None:
    with interrupt_once():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            with ignore_interrupts():
                os.kill(os.getpid(), signal.SIGTERM)
            done.append("all")


def test_of_two_interrupts_the_second_does_not_cut_the_tidying_up_short() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        tidied_in_spite_of_it(done)
    assert done == ["all"]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_killed_run_leaves_no_client_behind(url: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(dump(study_of(asked(url, CLOSED, 60.0, clients=2) | {"name": "killed"}, "protocol.isolate=true")))
    process = subprocess.Popen(
        command("measure", spec, "--out", tmp_path / "out", "-q"), start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 180
        while len(found := psutil.Process(process.pid).children(recursive=True)) < 4:  # worker, its tracker, clients
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    _, left = psutil.wait_procs(found, timeout=120)
    assert not [one for one in left if one.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="module")
def run_of_two(url: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return measured(tmp_path_factory.mktemp("two"), asked(url, POISSON, 1.0, clients=2))


def test_a_run_with_two_clients_is_calibrated_with_two_and_summarised(run_of_two: Run) -> None:
    run = run_of_two
    assert run_json(run)["calibration"]["clients"] == 2
    assert len(run_json(run)["client"]["clients"]) == 2
    assert (run.folder / "schedule.arrow").exists()
    summary = summary_of(run)
    assert summary.rows == run.table.num_rows == len(planned_load(run.spec).plan or ())
    assert "clock_bound_s" not in summary.metrics


def test_a_lost_client_makes_a_run_invalid_and_says_so(run_of_two: Run) -> None:
    run = run_of_two
    raw = run_json(run) | {
        "client": run_json(run)["client"] | {"lost": ["client 1 was killed"], "clock_bound_ns": 40_000_000}
    }
    (run.folder / "run.json").write_text(json.dumps(raw))
    (run.folder / "summary.json").unlink(missing_ok=True)
    summary = summary_of(find_runs(run.folder)[0])
    assert summary.verdict.label == "invalid"
    clause = clause_of(summary.verdict.reason)
    assert "client 1 was killed" in clause.lower()
    assert "clocks known to 40.0 ms" in clause
    assert summary.metrics["clock_bound_s"].value == 0.04


def test_a_server_that_a_client_cannot_reach_is_named() -> None:
    with null_server() as server:
        spec = spec_of(asked(server.url, POISSON))
        parent = OpenAIServer()
        parent.open(spec, quiet)
        (job,) = jobs_for(spec, planned_load(spec).plan, parent.network_client.endpoint(), 1)
        parent.close()
    client = ClientProcess("client 0", job)
    try:
        client.start()
        with pytest.raises(ExecutorFailed, match=f"client 0: no server answers at {job.endpoint.target.url}"):
            await_ready([client])
    finally:
        client.close()


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, ClientPool()),
        ({"clients": 3}, ClientPool(3)),
        ({"clients": "auto", "on": "ray://local"}, ClientPool("auto", "ray://local")),
        ({"on": "ray://head:10001"}, ClientPool(None, "ray://head:10001")),
    ],
)
def test_a_client_pool_is_read_from_the_options(options: dict[str, Any], found: ClientPool) -> None:
    assert client_pool_of(options) == found


@pytest.mark.parametrize(
    "options", [{"clients": 0}, {"clients": True}, {"clients": "many"}, {"clients": 1.5}, {"on": "head:1"}, {"on": 3},
                {"on": "ray://head"}, {"on": "http://head:1"}]
)  # fmt: skip
def test_a_client_pool_that_is_none_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as refused:
        client_pool_of(options)
    assert refused.value.code == "TL207"


def test_as_many_clients_as_the_load_needs_and_no_more_than_there_are_processors() -> None:
    spec = spec_of(asked("http://127.0.0.1:9/v1", POISSON | {"output_tokens": fixed(100)}, 10.0))
    plan = planned_load(spec).plan
    assert plan is not None
    assert typical_answer_tokens(spec, plan) == typical_answer_tokens(spec, None) == 100
    assert needed_clients(spec, plan, Calibration(1e6, 0.0, 0.0))[0] == 1  # 10,000 tokens/s are 1 % of it
    count, why = needed_clients(spec, plan, Calibration(1e3, 0.0, 0.0))
    processors = len(os.sched_getaffinity(0))
    assert count == min(processors, -(-int(plan.output_tokens.sum()) // (10 * 400)))
    assert f"{processors} processors here" in why


@given(st.lists(st.lists(st.integers(0, 999), max_size=30), min_size=1, max_size=4), st.randoms())
def test_merged_rows_are_in_order_and_whole(ends: list[list[int]], random: Any) -> None:
    written: list[int] = []
    merge = RowMerge(len(ends), lambda table: written.extend(table.column("end_ns").to_pylist()))
    parts = [(begin, client) for client in range(len(ends)) for begin in range(0, 1000, 250)]
    for begin, client in sorted(parts, key=lambda part: (part[0], random.random())):
        upto = begin + 250
        new = [end for end in ends[client] if begin <= end < upto]
        table = unpacked(packed([Request(0, end, end, (), (), end, 1, 0) for end in new]))
        assert table.schema == REQUEST_SCHEMA
        merge.take(client, table, upto)
        merge.flush()
        assert written == sorted(written)
    merge.close()
    assert sorted(written) == sorted(end for one in ends for end in one)


@given(st.lists(st.lists(st.integers(1, 10**12), min_size=1), min_size=1, max_size=4))
def test_lags_counted_apart_come_to_those_counted_together(lags: list[list[int]]) -> None:
    whole, parts = LagCount(), [LagCount() for _ in lags]
    for part, some in zip(parts, lags, strict=True):
        part.add(np.array(some))
        whole.add(np.array(some))
    merged = LagCount.merged(parts)
    assert merged.max_ns == whole.max_ns == max(max(some) for some in lags)
    assert [merged.quantile_ns(q) for q in (0.1, 0.5, 0.99)] == [whole.quantile_ns(q) for q in (0.1, 0.5, 0.99)]


@given(
    st.integers(-(10**15), 10**15),
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), min_size=1, max_size=20),
)
def test_the_true_offset_lies_within_the_bound_whatever_the_way_took(offset: int, trips: list[tuple[int, int]]) -> None:
    now = [0]
    ways = iter(trips)

    def theirs() -> int:
        there, back = next(ways)
        now[0] += there
        reading = now[0] + offset
        now[0] += back
        return reading

    found = measured_offset(theirs, len(trips), lambda: now[0])
    assert abs(found.offset_ns - offset) <= found.bound_ns
    assert found.bound_ns <= min(sum(trip) for trip in trips) // 2 + 2


@given(st.integers(-1000, 1000), st.integers(1, 500), st.integers(1, 500), st.integers(-2000, 2000), st.data())
def test_a_clock_that_drifts_steadily_stays_within_the_bound_over_the_run(
    true: int, before: int, after: int, drift: int, data: st.DataObject
) -> None:
    first = Offset(true + data.draw(st.integers(-before, before)), before)
    last = Offset(true + drift + data.draw(st.integers(-after, after)), after)
    share = data.draw(st.floats(0, 1))
    assert abs(first.offset_ns - (true + share * drift)) <= bound_over(first, last) + 1e-6


@pytest.mark.parametrize(("rate_per_s", "refused"), [(100_000.0, True), (1_000.0, False)])
def test_a_rate_far_above_what_the_clients_take_is_refused_before_it_starts(rate_per_s: float, refused: bool) -> None:
    data = inference("openai-http", point={"rate_per_s": rate_per_s})
    data["workload"] |= {"arrival": {"kind": "constant"}, "output_tokens": {"kind": "fixed", "value": 16}}
    data["protocol"]["duration_s"] = 0.5
    spec = spec_of(data)
    plan = planned_load(spec).plan
    if not refused:
        return refuse_overload(spec, plan, Calibration(18_080.0, 0.0, 0.0))
    with pytest.raises(BadInput) as caught:
        refuse_overload(spec, plan, Calibration(18_080.0, 0.0, 0.0, clients=2))
    assert "far above the 18,080 tokens/s that 2 clients take" in str(caught.value)
    assert "at most 1,130 requests/s" in str(caught.value)
    assert caught.value.code == "TL216"
