"""Rows of somebody's own loop, worked by hand on a clock that the test moves."""

from __future__ import annotations

import numpy as np
import pytest

from twinlens.executors.own_loop.step_log import StepLog
from twinlens.executors.own_loop.step_size import size_of
from twinlens.record.step import Marks


class Clock:
    """Moments that the test says; those of a GPU become known later."""

    def __init__(self) -> None:
        self.at, self.reached = 1000, True

    def now(self) -> int:
        return self.at

    def between_ns(self, begin: int, end: int) -> int:
        return end - begin

    def is_reached(self, moment: int) -> bool:
        return self.reached

    def wait(self) -> None:
        self.reached = True

    def anchor(self) -> tuple[int, int]:
        return self.at, 5000


class Loop:
    """A log with its rows, origin 5000 ns of the processor's clock."""

    def __init__(self, every_s: float = 0.0) -> None:
        self.clock, self.taken = Clock(), list[Marks]()
        self.log = StepLog(self.clock, self.taken.extend, 5000, every_s)

    @property
    def rows(self) -> list[Marks]:
        self.log.drain()
        return self.taken

    def to(self, at: int) -> int:
        self.clock.at = at
        return at

    def microbatch(self, at: int, samples: int = 2, loss: float = 1.0) -> None:
        """10 ns of data, 30 of forward, 50 of backward from `at` on."""
        self.log.spent("data", at, at + 10)
        self.log.counted(samples, samples * 8)
        self.log.spent("forward", at + 10, at + 40)
        self.log.lost(loss)
        self.log.spent("backward", at + 40, at + 90)
        self.to(at + 90)

    def optimize(self, took: int) -> None:
        self.log.optimizing()
        self.to(self.clock.at + took)
        self.log.optimized()
        self.log.ended()


def test_a_step_of_two_microbatches_is_one_row() -> None:
    loop = Loop()
    loop.microbatch(1100, loss=3.0)
    loop.microbatch(1200, loss=1.0)
    loop.optimize(5)
    (row,) = loop.rows
    assert (row.begin_ns, row.end_ns) == (100, 295)  # counted from the anchor, which was at 0 ns of the run
    assert (row.data_ns, row.forward_ns, row.backward_ns, row.optimize_ns) == (20, 60, 100, 5)
    assert (row.samples, row.tokens, row.loss) == (4, 32, 2.0)
    assert row.communicate_ns is None, "a phase that was not seen is absent, not 0"


def test_the_next_row_begins_where_the_one_before_ended() -> None:
    loop = Loop()
    for at in (1100, 1300):
        loop.microbatch(at)
        loop.optimize(5)
    assert loop.rows[1].begin_ns == loop.rows[0].end_ns


def test_an_optimizer_that_runs_a_closure_is_charged_with_its_own_time_only() -> None:
    loop = Loop()
    loop.to(1100)
    loop.log.optimizing()
    loop.microbatch(1100)
    loop.to(1197)
    loop.log.optimized()
    loop.log.ended()
    (row,) = loop.rows
    assert (row.optimize_ns, row.forward_ns, row.backward_ns) == (7, 30, 50)


def test_a_phase_that_began_before_the_optimizer_is_inside_it_only_from_there_on() -> None:
    loop = Loop()
    loop.to(1120)
    loop.log.optimizing()
    loop.log.counted(1, 8)
    loop.log.spent("forward", 1100, 1150)
    loop.to(1160)
    loop.log.optimized()
    loop.log.ended()
    assert (loop.rows[0].forward_ns, loop.rows[0].optimize_ns) == (50, 10)


def test_an_evaluation_is_a_row_of_its_own_and_takes_nothing_of_the_next_step() -> None:
    loop = Loop()
    loop.microbatch(1100)
    loop.optimize(10)
    loop.log.set_aside(3, 24)
    loop.log.evaluated(1200, loop.to(1500), 0, 0, 2.5)
    loop.microbatch(1500)
    loop.optimize(10)
    step, look, after = loop.rows
    assert (look.kind, look.samples, look.tokens, look.loss) == ("evaluate", 3, 24, 2.5)
    assert (after.kind, after.begin_ns, after.tag) == ("step", look.end_ns, None)
    assert step.end_ns <= look.begin_ns


def test_a_forward_pass_without_gradients_inside_a_step_is_named() -> None:
    loop = Loop()
    loop.log.set_aside(4, 32)
    loop.microbatch(1100)
    loop.optimize(10)
    assert (loop.rows[0].tag, loop.rows[0].samples) == ("no-grad", 2)


def test_rows_wait_until_their_moments_are_reached() -> None:
    loop = Loop()
    loop.clock.reached = False
    for at in (1100, 1300):
        loop.microbatch(at)
        loop.optimize(5)
    assert loop.taken == []
    assert len(loop.rows) == 2


def test_a_row_is_handed_over_when_the_next_one_begins() -> None:
    loop = Loop()
    loop.microbatch(1100)
    loop.optimize(5)
    loop.log.lost(7.0)  # a loop may say its loss once the optimizer is done
    assert loop.taken == []
    loop.microbatch(1300)
    assert [row.loss for row in loop.taken] == [4.0]


def test_rows_are_handed_over_together_once_the_time_for_it_has_come() -> None:
    loop = Loop(every_s=3600.0)
    for at in (1100, 1300, 1500):
        loop.microbatch(at)
        loop.optimize(5)
    assert loop.taken == [], "a step does not wait for rows to be written"
    assert [row.begin_ns for row in loop.rows] == [100, 195, 395]


def test_a_step_of_unknown_size_is_no_row() -> None:
    loop = Loop()
    loop.log.spent("forward", 1100, 1200)
    with pytest.raises(ValueError, match="how many samples"):
        loop.log.ended()
    assert loop.rows == []
    loop.log.offered(5, 0)
    loop.log.ended()
    assert loop.rows[0].samples == 5


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        ({"input_ids": np.zeros((4, 16), np.int64), "labels": np.zeros((4, 16), np.int64)}, (4, 64)),
        ({"input_ids": np.zeros(48, np.int64)}, (1, 48)),
        ((np.zeros((4, 16), np.int64), np.zeros(4)), (4, 64)),
        ([np.zeros((8, 3, 32, 32), np.float32), np.zeros(8)], (8, 0)),
        ({"pixel_values": np.zeros((8, 3, 32, 32), np.float32)}, (8, 0)),
        ("text", None),
        ({}, None),
        (3.0, None),
    ],
)
def test_the_size_of_a_batch_is_read_from_its_shapes(batch: object, size: tuple[int, int] | None) -> None:
    assert size_of(batch) == size


def sizes(*rows: Marks) -> list[tuple[int, int]]:
    return [(row.samples, row.tokens) for row in rows]


def called(loop: Loop, *calls: tuple[int, int], loaded: tuple[int, int] | None = None, said: bool = False) -> None:
    """One step: these forward passes on one batch, a backward pass, and the optimizer."""
    if loaded is not None:
        (loop.log.said if said else loop.log.offered)(*loaded)
    for samples, tokens in calls:
        loop.log.counted(samples, tokens)
    at = loop.clock.at
    loop.log.spent("backward", at, at + 10)
    loop.to(at + 10)
    loop.optimize(5)


def test_a_model_that_is_called_twice_on_one_batch_trains_on_that_batch_once() -> None:
    """Two views before one backward pass; or a batch of the loader, whatever is called on it (a GAN)."""
    loop = Loop()
    called(loop, (8, 256), (8, 256))
    called(loop, (8, 256), (8, 256), loaded=(8, 256))
    loop.log.offered(8, 256)
    for _ in range(2):  # D(real) and D(fake), each with a backward pass of its own
        loop.log.counted(8, 256)
        loop.log.spent("backward", loop.clock.at, loop.to(loop.clock.at + 5))
    loop.optimize(5)
    assert sizes(*loop.rows) == [(8, 256)] * 3


def test_parts_of_an_accumulated_step_all_count_and_so_do_calls_without_a_backward_pass() -> None:
    loop = Loop()
    for _ in range(4):
        loop.log.offered(2, 18)  # the loader's texts are a token longer than what the model is given
        loop.log.counted(2, 16)
        loop.log.spent("backward", loop.clock.at, loop.to(loop.clock.at + 5))
    assert loop.log.pending == (8, 64, 4)
    loop.optimize(5)
    loop.log.counted(2, 16)  # an engine's own backward pass is not seen
    loop.log.counted(2, 16)
    loop.optimize(5)
    assert sizes(*loop.rows) == [(8, 64), (4, 32)]


def test_what_the_user_says_of_a_batch_goes_before_all_shapes() -> None:
    loop = Loop()
    called(loop, (8, 256), loaded=(8, 100), said=True)
    assert sizes(*loop.rows) == [(8, 100)]


def test_one_size_that_is_said_leaves_the_other_to_the_shapes() -> None:
    loop = Loop()
    for said in ((2, None), (None, 100)):
        loop.log.offered(8, 264)
        loop.log.said(*said)
        called(loop, (8, 256))
    assert sizes(*loop.rows) == [(2, 256), (8, 100)]


def test_a_call_without_gradients_makes_no_second_batch_of_one_called_twice() -> None:
    loop = Loop()
    loop.log.offered(8, 256)
    loop.log.set_aside(8, 256)  # a teacher's look
    for _ in range(2):
        loop.log.counted(8, 256)
        loop.log.spent("backward", loop.clock.at, loop.to(loop.clock.at + 5))
    loop.optimize(5)
    assert sizes(*loop.rows) == [(8, 256)]


def test_padding_is_not_tokens_and_stays_in_the_size_of_the_step() -> None:
    loop = Loop()
    loop.log.counted(4, 64, real=50)
    loop.log.spent("backward", loop.clock.at, loop.to(loop.clock.at + 5))
    assert loop.log.pending == (4, 64, 1), "the work that is done is that of the padded batch"
    loop.optimize(5)
    assert sizes(*loop.rows) == [(4, 50)]


def test_a_loss_that_is_no_number_loses_no_row() -> None:
    loop = Loop()
    loop.microbatch(1100, loss="none")  # type: ignore[arg-type]
    loop.optimize(5)
    (row,) = loop.rows
    assert row.loss is None
