"""A run that cannot come to anything ends early; a share of failures, or a server that comes back, never ends one."""

from __future__ import annotations

import contextlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from hostile_server import good, hostile
from hypothesis import given
from hypothesis import strategies as st

from material import inference, spec_of, study_of
from twinlens.errors import ExecutorFailed
from twinlens.measurement.drive.hopeless import FEWEST, Hope, while_there_is_hope
from twinlens.measurement.session import run_here
from twinlens.measurement.study import measure_study
from twinlens.record.run import Run
from twinlens.record.store import create_run, find_runs, read_run
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.open_loop import OpenLoop
from twinlens.schedule.request import ScheduledRequest, SeesEnds, Settled

NOBODY = "cannot connect: Connection refused"
MS = 1_000_000


def after(rows: list[tuple[str, str | None]], every_ms: int = 100, patience_s: float = 2.0, up: bool = True) -> Hope:
    hope = Hope(patience_s, lambda: up)
    for number, (outcome, error) in enumerate(rows):
        hope.see(outcome, error, number * every_ms * MS, "never open" if error == NOBODY else None)
    return hope


def test_the_same_failure_from_the_start_ends_a_run_once_it_has_lasted() -> None:
    cut = [("cut_off", f"{n % 7} of 8 tokens, finish_reason stop") for n in range(30)]
    assert after(cut).lost == (
        "given up after 21 requests: the last 21, over 2.0 s, all ended alike (6 of 8 tokens, finish_reason stop); "
        "the rows are kept"
    )
    assert after(cut[:20]).lost is None, "2 s have not passed"
    assert after(cut, every_ms=10).lost is None, "many at once are no more than one moment"
    assert after(cut[: FEWEST - 1], every_ms=10_000).lost is None, "too few to say"
    assert after(cut, patience_s=0).lost is None, "asked never to"


def test_a_server_that_is_gone_ends_a_run_later_too_and_one_that_comes_back_does_not() -> None:
    ok, refused = ("ok", None), ("refused", NOBODY)
    assert after([ok] * 170 + [refused] * 29, patience_s=10.0).lost is None
    assert after([ok] * 170 + [refused] * 29 + [ok] + [refused] * 90, patience_s=10.0).lost is None
    assert "the last 101" in str(after([ok] * 170 + [refused] * 200, patience_s=10.0).lost)
    gone = after([ok] * 170 + [refused] * 29, patience_s=10.0, up=False).lost
    assert "the last 20" in str(gone), "a process of ours that has ended does not come back"


@given(st.lists(st.sampled_from(["ok", "refused", "failed"]), max_size=400), st.integers(1, 5000))
def test_a_share_of_failures_never_ends_a_run(outcomes: list[str], every_ms: int) -> None:
    rows = [(outcome, None if outcome == "ok" else "HTTP 503: overloaded") for outcome in ["ok", *outcomes]]
    assert after(rows, every_ms).lost is None


def test_a_schedule_without_hope_is_over_and_else_as_it_was() -> None:
    asks = [ScheduledRequest(n, n, n, 1, 1, (0, n)) for n in range(4)]
    hope = Hope(1.0)
    schedule = while_there_is_hope(OpenLoop(asks), hope)
    assert isinstance(schedule, Settled)
    assert not isinstance(schedule, SeesEnds)
    assert (schedule.due(1), schedule.next_due_ns(), schedule.is_settled) == (tuple(asks[:2]), 2, True)
    hope.lost = "given up"
    assert (schedule.due(9), schedule.next_due_ns()) == ((), None)
    with pytest.raises(ExecutorFailed, match="given up") as stopped:
        hope.check()
    assert stopped.value.code == "TL306"


def test_a_closed_loop_sees_ends_as_long_as_there_is_hope() -> None:
    asks = [ScheduledRequest(n, n, n, 1, 1, (0, n)) for n in range(4)]
    hope = Hope(1.0)
    schedule = while_there_is_hope(ClosedLoop(2, asks), hope)
    for name in ("coming", "take", "done_with_follower"):
        inspect.getattr_static(schedule, name)  # where Python from 3.12 on looks: a `__getattr__` would not be asked
    assert isinstance(schedule, SeesEnds)
    assert not (isinstance(schedule, Settled) and schedule.is_settled)
    assert [scheduled.number for scheduled in schedule.due(0)] == [0, 1]
    assert schedule.coming(0) is not None
    hope.lost = "given up"
    assert schedule.take(1) is None


def served(url: str, **more: Any) -> dict[str, Any]:
    protocol = {"duration_s": 30.0, "hopeless_s": 0.4, "guards": False} | more.pop("protocol", {})
    options = {"url": url, "probe": False, "timeout_s": 5.0} | more.pop("options", {})
    point = {"rate_per_s": 50.0}
    return inference(
        "openai-http", arrival={"kind": "constant"}, point=point, options=options, protocol=protocol, **more
    )


def given_up(parent: Path, data: dict[str, Any]) -> tuple[Run, ExecutorFailed]:
    spec = spec_of(data)
    folder = create_run(parent, spec)
    with pytest.raises(ExecutorFailed, match="given up") as stopped:
        run_here(folder, spec, lambda phrase, share, rows: None)
    return read_run(folder), stopped.value


@pytest.mark.parametrize("clients", [1, 2])
def test_a_run_against_a_server_that_refuses_everything_ends_early_and_keeps_its_rows(
    tmp_path: Path, clients: int
) -> None:
    def refuses(asked: Any) -> None:
        asked.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")

    with hostile(refuses) as server:
        run, stopped = given_up(tmp_path, served(server.url, options={"clients": clients}))
    assert (run.state, run.error, stopped.code) == ("failed", str(stopped), "TL306")
    assert "HTTP 401" in str(stopped)
    assert FEWEST <= run.table.num_rows < 1500, "of 1,500"
    assert set(run.table.column("outcome").to_pylist()) == {"failed"}


def test_a_run_whose_server_goes_away_ends_early_and_the_study_says_why(tmp_path: Path) -> None:
    with contextlib.ExitStack() as there:
        server = there.enter_context(hostile(good))

        def watch(event: Any) -> None:
            if event.rows > 5:
                there.close()

        outcome = measure_study(study_of(served(server.url)), tmp_path, watch)
    (failure,) = outcome.failures
    assert failure.code == "TL306"
    (run,) = find_runs(tmp_path)
    outcomes = run.table.column("outcome").to_pylist()
    assert "ok" in outcomes
    assert outcomes[-FEWEST:] == ["refused"] * FEWEST
    assert len(outcomes) < 1500
