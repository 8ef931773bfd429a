"""Tests of a server: each request answered once and in full, its times in order, its row complete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from twinlens.executors.in_process.engine_server import EngineServer
from twinlens.executors.protocol import Server
from twinlens.executors.refuse import refuse_unsupported
from twinlens.executors.registry import server
from twinlens.record.executor.facts import Facts
from twinlens.record.request import Request
from twinlens.schedule.lockstep import LockstepLoop
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.testing.case import Case
from twinlens.testing.definition import quiet
from twinlens.testing.evidence import assert_fidelity, assert_products, assert_says_who_it_is, assert_weights
from twinlens.testing.schedules import SessionOfTurns, TimedRequests, Watched

BATCH = 3
_TURNS = 3
_LATER_NS = 500_000_000
_DUE_NS = (0, 30_000_000, 60_000_000)


@dataclass(frozen=True)
class PlayedServer:
    """A server that has played two schedules, the second after the first was over, and is still up."""

    spec: RunSpec
    facts: Facts
    schedules: tuple[Watched, Watched]
    rows: tuple[list[Request], list[Request]]
    server: Server

    @property
    def all_rows(self) -> list[Request]:
        return [row for rows in self.rows for row in rows]


def two_batches(spec: RunSpec, first_group: int) -> LockstepLoop:
    """Requests of the workload's lengths; images have none."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    is_text = workload.data.kind != "images"
    tokens, answer = (workload.input_tokens, workload.output_tokens) if is_text else (None, None)
    return LockstepLoop(BATCH, tokens, answer, until_ns=0, min_requests=2 * BATCH, seed=3, first_group=first_group)


class Serving:
    """Tests of one `case` that serves, of recorded answers too."""

    case: Case

    def pytest_generate_tests(self, metafunc: Any) -> None:
        if "serving_model" in metafunc.fixturenames:
            metafunc.parametrize("serving_model", self.case.models(), scope="class")

    @pytest.fixture(scope="class")
    @classmethod
    def served(cls, serving_model: str) -> Iterator[PlayedServer]:
        spec = cls.case.spec("inference", serving_model)
        refuse_unsupported(spec)
        opened = server(cls.case.kind)
        try:
            facts = opened.open(spec, quiet)
            schedules = (Watched(two_batches(spec, 0)), Watched(two_batches(spec, 2)))
            rows: tuple[list[Request], list[Request]] = ([], [])
            for schedule, taken in zip(schedules, rows, strict=True):
                opened.play(schedule, taken.append)
            yield PlayedServer(spec, facts, schedules, rows, opened)
        finally:
            opened.close()

    def test_a_server_says_who_it_is_and_its_facts_survive_json(self, served: PlayedServer) -> None:
        assert_says_who_it_is(served.facts)

    def test_the_weights_it_says_it_holds_are_those_of_the_model(self, served: PlayedServer) -> None:
        if self.case.can.is_sized_by_theory or isinstance(served.server, EngineServer):
            assert_weights(served.facts, served.spec)

    def test_an_engine_in_this_process_names_the_products_of_its_export(self, served: PlayedServer) -> None:
        shape = served.spec.model.shape
        if isinstance(served.server, EngineServer) and shape is not None:
            assert_products(served.server.linears, shape, served.server.export.path)

    def test_fidelity_that_is_claimed_is_token_by_token(self, served: PlayedServer) -> None:
        is_engine = isinstance(served.server, EngineServer)  # at fp32 torch is the reference itself
        if self.case.can.compares_with_fp32 and (is_engine or served.spec.point.precision != "fp32"):
            assert_fidelity(served.facts, served.spec)

    def test_chunks_hold_the_tokens_they_say(self, served: PlayedServer) -> None:
        assert served.all_rows
        for row in served.all_rows:
            assert row.outcome == "ok"
            assert len(row.chunk_ns) == len(row.chunk_tokens) >= 1
            assert sum(row.chunk_tokens) == row.output_tokens

    def test_the_times_of_a_request_are_in_order_and_whole(self, served: PlayedServer) -> None:
        for row in served.all_rows:
            times = [row.intended_ns, row.sent_ns, *row.chunk_ns, row.end_ns]
            assert all(type(time) is int for time in times)
            assert times == sorted(times)
            assert row.chunk_ns[0] > row.sent_ns, "an answer takes time"


class Answering(Serving):
    """And of one that answers what it is asked now: a recording cannot."""

    def test_each_request_is_answered_once_and_in_full(self, served: PlayedServer) -> None:
        counts = self.case.can.prompts == "tokens"  # a server's tokenizer makes of words what it likes
        for schedule, rows in zip(served.schedules, served.rows, strict=True):
            assert len(schedule.asked) == 2 * BATCH
            ended = [replace(told, end_ns=row.end_ns) for told, row in zip(schedule.done_with, rows, strict=True)]
            assert ended == rows, "a row handed on is a row the schedule is told of"
            assert all(told.end_ns >= row.end_ns for told, row in zip(schedule.done_with, rows, strict=True))
            given = sorted((r.group, r.intended_ns, (r.input_tokens or 0) * counts, r.output_tokens) for r in rows)
            asked = ((a.group, a.intended_ns, a.input_tokens * counts, a.output_tokens) for a in schedule.asked)
            assert given == sorted(asked)

    def test_time_goes_on_when_a_server_plays_again(self, served: PlayedServer) -> None:
        first, second = served.rows
        assert min(row.sent_ns for row in second) >= max(row.end_ns for row in first)

    def test_a_row_says_how_long_its_answer_was_asked_to_be(self, served: PlayedServer) -> None:
        asked = [scheduled.output_tokens for schedule in served.schedules for scheduled in schedule.asked]
        assert sorted(row.asked_tokens or 0 for row in served.all_rows) == sorted(asked)


class UnderLoad(Answering):
    """And of one that answers more than batches in lockstep: requests at any time, and conversations."""

    def test_a_row_carries_its_session_its_turn_and_when_it_was_let_go(self, served: PlayedServer) -> None:
        schedule, rows = Watched(SessionOfTurns(_TURNS, *_lengths(served.spec))), list[Request]()
        served.server.play(schedule, rows.append)
        asked = [(s.session, s.turn, s.intended_ns, s.released_ns) for s in schedule.asked]
        assert [(row.session, row.turn, row.intended_ns, row.released_ns) for row in rows] == asked
        assert len(rows) == _TURNS

    def test_a_server_waits_for_what_is_due_later(self, served: PlayedServer) -> None:
        ended_ns = max(row.end_ns for row in served.all_rows)
        due_ns = [ended_ns + _LATER_NS + at_ns for at_ns in _DUE_NS]
        rows = list[Request]()
        served.server.play(TimedRequests(due_ns, *_lengths(served.spec)), rows.append)
        assert [row.intended_ns for row in rows] == due_ns
        assert all(row.sent_ns >= row.intended_ns for row in rows)


def _lengths(spec: RunSpec) -> tuple[int, int]:
    """Of a small prompt and its answer, in tokens; an image has none."""
    assert isinstance(spec.workload, InferenceWorkload)
    return (0, 0) if spec.workload.data.kind == "images" else (8, 6)
