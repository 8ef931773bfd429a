"""Pipelines: timelines worked by hand, bubbles of theory, and laws that hold for any stages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.simulation.training.pipeline import NOTHING, Order, Pipeline, Timeline, timeline
from twinlens.theory.sharding import Split, bubble_share


def even(stages: int, many: int, order: Order, parts: int = 1, transfer_s: float = 0.0) -> Timeline:
    """Forward 1 s and backward 2 s on each stage, in `parts` alike."""
    forward = np.full(stages * parts, 1.0 / parts)
    return timeline(Pipeline(stages, many, forward, 2 * forward, order, transfer_s))


def test_two_stages_and_two_microbatches_by_hand() -> None:
    """1F1B. Stage 0: F0 0–1, F1 1–2, B0 4–6, B1 7–9. Stage 1: F0 1–2, B0 2–4, F1 4–5, B1 5–7."""
    found = even(2, 2, "1f1b")
    first = found.stage == 0
    assert found.begin_s[first].tolist() == [0, 1, 4, 7]
    assert found.end_s[first].tolist() == [1, 2, 6, 9]
    assert found.begin_s[~first].tolist() == [1, 2, 4, 5]
    assert found.idle_share == pytest.approx(6 / 18)  # (p − 1) / (m + p − 1) = 1/3
    waited = np.flatnonzero(first & (found.waits_for != NOTHING))
    for one, other in zip(waited, found.waits_for[waited], strict=True):
        assert found.is_backward[[one, other]].all()
        assert found.stage[other] == 1
        assert found.microbatch[other] == found.microbatch[one]
        assert found.end_s[other] == found.begin_s[one]


def test_a_transfer_is_paid_twice_at_the_turn() -> None:
    """One microbatch, two stages: F 0–1, over 0.5, F 1.5–2.5, B 2.5–4.5, over 0.5, B 5–7."""
    assert even(2, 1, "1f1b", transfer_s=0.5).makespan_s == 7.0


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
@given(st.integers(1, 6), st.integers(1, 12))
def test_the_bubble_of_even_stages_is_that_of_theory(order: Order, stages: int, many: int) -> None:
    assert even(stages, many, order).idle_share == pytest.approx(
        bubble_share(Split(pipeline=stages, microbatches=many))
    )


@given(st.integers(2, 5), st.integers(1, 4), st.integers(1, 4))
def test_parts_divide_the_bubble(stages: int, rounds: int, parts: int) -> None:
    many = stages * rounds
    found = even(stages, many, "interleaved", parts)
    assert found.idle_share == pytest.approx(bubble_share(Split(pipeline=stages, microbatches=many), parts))


def test_1f1b_keeps_as_many_microbatches_as_stages_lie_ahead_and_gpipe_all() -> None:
    assert even(4, 8, "1f1b").held.tolist() == [4, 3, 2, 1]
    assert even(4, 8, "gpipe").held.tolist() == [8, 8, 8, 8]


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    order: Order = draw(st.sampled_from(["gpipe", "1f1b", "interleaved"]))
    stages = draw(st.integers(1, 4))
    many = stages * draw(st.integers(1, 3)) if order == "interleaved" else draw(st.integers(1, 6))
    parts = stages * (draw(st.integers(1, 3)) if order == "interleaved" else 1)
    seconds = st.lists(st.floats(0.1, 5.0), min_size=parts, max_size=parts).map(np.array)
    return Pipeline(stages, many, draw(seconds), draw(seconds), order, draw(st.floats(0.0, 1.0)))


@settings(max_examples=60)
@given(pipelines())
def test_no_pipeline_beats_its_longest_path_and_all_work_is_done_once(asked: Pipeline) -> None:
    found = timeline(asked)
    parts, many = len(asked.forward_s), asked.microbatches
    work = np.bincount(np.arange(parts) % asked.stages, asked.forward_s + asked.backward_s) * many
    np.testing.assert_allclose(found.busy_s, work)
    crossings = 0 if asked.stages == 1 else 2 * (parts - 1)
    path = float((asked.forward_s + asked.backward_s).sum()) + crossings * asked.transfer_s
    assert found.makespan_s >= max(path, float(work.max())) - 1e-9
    done = set(zip(found.part.tolist(), found.microbatch.tolist(), found.is_backward.tolist(), strict=True))
    assert len(done) == len(found.part) == 2 * parts * many
    for stage in range(asked.stages):
        own = found.stage == stage
        assert (found.begin_s[own][1:] >= found.end_s[own][:-1]).all(), "a stage does one pass at a time"
    assert (found.begin_s >= found.ready_s).all()
    assert timeline(asked).begin_s.tobytes() == found.begin_s.tobytes()


@settings(max_examples=40)
@given(pipelines(), st.floats(1.0, 2.0))
def test_slower_parts_and_links_never_end_a_step_sooner(asked: Pipeline, factor: float) -> None:
    slower = asked.forward_s.copy()
    slower[-1] *= factor
    longer = Pipeline(asked.stages, asked.microbatches, slower, asked.backward_s, asked.order, asked.transfer_s + 0.1)
    assert timeline(longer).makespan_s >= timeline(asked).makespan_s - 1e-9


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Pipeline(0, 1, np.ones(1), np.ones(1)), "at least one stage"),
        (Pipeline(2, 2, np.ones(4), np.ones(4)), "4 parts do not lie on 2 stages in the order 1f1b"),
        (Pipeline(2, 3, np.ones(4), np.ones(4), "interleaved"), "multiple of its 2 stages, not 3"),
        (Pipeline(2, 2, np.ones(2), np.array([1.0, 0.0])), "times of passes must be above 0"),
        (Pipeline(2, 2, np.ones(2), np.ones(2), "1f2b"), "unknown order"),  # type: ignore[arg-type]
        (Pipeline(2, 2, np.ones(2), np.ones(2), transfer_s=-1.0), "transfer_s must be finite"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused(asked: Pipeline, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        timeline(asked)
