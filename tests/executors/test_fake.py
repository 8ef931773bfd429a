"""The laws of the fake executor, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from material import inference, quiet, spec_of, training
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.fake import FakeServer, FakeTrainer
from twinlens.record.request import Request
from twinlens.record.step import Marks
from twinlens.reporting.wording.finding import sentence_of
from twinlens.testing.schedules import TimedRequests


def steps(count: int, seed: int = 0, **laws: float) -> list[Marks]:
    trainer = FakeTrainer()
    trainer.open(spec_of(training("fake", options=laws, protocol={"seed": seed})), quiet)
    return [trainer.step() for _ in range(count)]


def seconds(marks: list[Marks]) -> list[float]:
    return [(mark.end_ns - mark.begin_ns) / 1e9 for mark in marks]


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-3, 10), st.floats(0, 2), st.integers(0, 9), st.floats(1, 5))
def test_a_step_lasts_what_the_laws_say(step_s: float, drift: float, warmup: int, factor: float) -> None:
    times_s = seconds(steps(12, step_s=step_s, drift=drift, warmup_steps=warmup, warmup_factor=factor))
    for index, took in enumerate(times_s):
        expected = step_s * (1 + drift * index / 1000)
        expected *= 1 + (factor - 1) * (1 - index / warmup) if index < warmup else 1
        assert took == pytest.approx(expected, rel=1e-6, abs=4e-9)


def test_throttles_stalls_and_failures_come_at_their_row() -> None:
    times_s = seconds(steps(6, throttle_at=4, throttle_factor=2.0, stall_at=2, stall_s=3.0))
    assert times_s == pytest.approx([0.1, 0.1, 3.1, 0.1, 0.2, 0.2])
    with pytest.raises(ExecutorFailed, match="fails at row 3"):
        steps(6, fail_at=3)


def test_the_loss_falls_exponentially_from_one_to_the_other() -> None:
    found = [step.loss for step in steps(101, loss_from=6.0, loss_to=2.0, loss_steps=100.0)]
    assert found[0] == 6.0
    assert found[100] == pytest.approx(2 + 4 / np.e)


def test_noise_has_the_spread_it_says_and_a_mean_of_one() -> None:
    found = np.array(seconds(steps(4000, noise=0.2, step_s=1.0)))
    assert found.mean() == pytest.approx(1.0, abs=0.01)
    # Four phases with noise of their own: the spread of the sum is that of its parts, in quadrature.
    shares = np.array([0.05, 0.30, 0.55, 0.10])
    assert found.std() == pytest.approx(0.2 * np.sqrt((shares**2).sum()), rel=0.06)
    assert steps(5, noise=0.2) == steps(5, noise=0.2)
    assert steps(5, noise=0.2) != steps(5, seed=1, noise=0.2)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.floats(0.001, 1), st.floats(0, 0.01), st.floats(0.001, 0.1), st.floats(0, 0.05))
def test_an_answer_lasts_what_the_laws_say(tokens: int, a_s: float, b_s: float, c_s: float, d_s: float) -> None:
    server, rows = FakeServer(), list[Request]()
    server.open(spec_of(inference("fake", options={"a_s": a_s, "b_s": b_s, "c_s": c_s, "d_s": d_s})), quiet)
    server.play(TimedRequests([0, 10**12], 16, tokens), rows.append)
    for row in rows:
        assert row.sent_ns == row.intended_ns, "it is idle in between"
        assert (row.chunk_ns[0] - row.sent_ns) / 1e9 == pytest.approx(a_s + 16 * b_s, abs=2e-9)
        gaps = np.diff(row.chunk_ns) / 1e9
        assert gaps.tolist() == pytest.approx([max(c_s, d_s)] * (tokens - 1), abs=2e-9)


def test_it_says_that_it_is_a_fake() -> None:
    facts = FakeTrainer().open(spec_of(training("fake")), quiet)
    assert facts.executor.value("accelerator.product") == "a fake with known laws"
    assert "A fake executor: times come from formulas, not from hardware." in map(sentence_of, facts.findings)


def test_an_unknown_law_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean 'drift'"):
        steps(1, dirft=1.0)
