"""Steps put together: worked by hand, and no part shorter than it can be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.training.test_pipeline import pipelines

from twinlens.errors import BadInput
from twinlens.simulation.training.composed import Gradients, composed
from twinlens.simulation.training.exchange import Link
from twinlens.simulation.training.pipeline import Pipeline, timeline

LINK = Link(2, 1.0)  # an all-reduce of n bytes between two takes n seconds
ONE = Pipeline(1, 2, np.array([1.0]), np.array([2.0]))


def test_gradients_of_the_last_microbatch_are_exchanged_beside_it_by_hand() -> None:
    """F 0–1, B 1–3, F 3–4, B 4–6 in four layers of half a second, whole at 4.5, 5, 5.5 and 6; each takes 1 s from 4.5:
    until 8.5, and the optimizer 0.5 s."""
    found = composed(ONE, 0.5, Gradients((np.ones(4),), LINK, bucket_bytes=1, first_bytes=1))
    assert found.exchanges[0].begin_s.tolist() == [4.5, 5.5, 6.5, 7.5]
    assert found.exposed_s == 2.5
    assert found.total_s == 9.0
    assert found.shares == pytest.approx({"forward": 2 / 9, "backward": 4 / 9, "communicate": 2.5 / 9,
                                          "optimize": 0.5 / 9})  # fmt: skip


def test_one_copy_exchanges_nothing() -> None:
    found = composed(ONE, 1.0)
    assert (found.exposed_s, found.total_s) == (0.0, 7.0)


def test_stages_that_end_early_exchange_in_the_drain() -> None:
    """Two stages, two microbatches: the last stage ends at 7 and the first at 9, so 2 s of its exchange are hidden."""
    two = Pipeline(2, 2, np.ones(2), np.full(2, 2.0))
    late = composed(two, 0.0, Gradients((np.ones(1), np.full(1, 3.0)), LINK))
    assert late.exchanges[1].end_s.tolist() == [10.0]
    assert late.exchanges[0].end_s.tolist() == [10.0]
    assert late.exposed_s == 1.0


@settings(max_examples=40)
@given(pipelines(), st.floats(0.01, 5.0), st.integers(1, 6))
def test_a_step_is_no_shorter_than_its_passes_and_hides_no_more_than_it_exchanges(
    asked: Pipeline, size: float, layers: int
) -> None:
    parts = len(asked.forward_s) // asked.stages
    found = composed(asked, 0.1, Gradients((np.full(layers * parts, size),) * asked.stages, LINK, 1, 1))
    assert 0 <= found.exposed_s <= size * layers * parts + 1e-9
    assert found.total_s == pytest.approx(timeline(asked).makespan_s + found.exposed_s + 0.1)
    assert sum(found.shares.values()) == pytest.approx(1.0)
    longer = composed(asked, 0.1, Gradients((np.full(layers * parts, 2 * size),) * asked.stages, LINK, 1, 1))
    assert longer.exposed_s >= found.exposed_s - 1e-9


def test_steps_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadInput, match="optimizer_s must be finite"):
        composed(ONE, -1.0)
    with pytest.raises(BadInput, match="each of 1 stages"):
        composed(ONE, 0.0, Gradients((), LINK))
