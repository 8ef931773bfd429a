"""Schedules played to an engine that batches requests itself; the engine here is a list."""

from __future__ import annotations

from twinlens.executors.in_process.player import Gained, Running, Stepper
from twinlens.record.request import Request
from twinlens.schedule.request import ScheduledRequest


class Due:
    """A schedule whose second request is due when the first has had a step."""

    def __init__(self, requests: list[ScheduledRequest]) -> None:
        self.left, self.ended = requests, []

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        return (self.left.pop(0),) if self.left else ()

    def next_due_ns(self) -> int | None:
        return 0 if self.left else None

    def done(self, row: Request) -> None:
        self.ended.append(row.group)


def test_requests_join_a_batch_that_runs_and_one_that_is_cut_off_is_said() -> None:
    together: list[int] = []
    tokens: dict[int, int] = {}

    def begin(scheduled: ScheduledRequest) -> list[int]:
        return [scheduled.number]

    def step(running: list[Running]) -> list[Gained]:
        together.append(len(running))
        for one in running:
            tokens[one.handle[0]] = tokens.get(one.handle[0], 0) + 1
        return [(one, 1, tokens[one.handle[0]] == (3 if one.handle[0] == 0 else 1)) for one in running]

    schedule, rows = Due([ScheduledRequest(number, number, 0, 16, 3, (0, number)) for number in range(2)]), []
    Stepper(begin, step).play(schedule, rows.append)  # type: ignore[arg-type]
    assert together == [1, 2, 1], "the second joins in the second step and ends there"
    assert [(row.group, row.outcome, row.output_tokens, len(row.chunk_ns)) for row in rows] == [
        (1, "cut_off", 1, 1),
        (0, "ok", 3, 3),
    ]
    assert schedule.ended == [1, 0]
