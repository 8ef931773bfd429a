"""Exchanges beside computing: worked by hand, against the closed form, and laws that hold for any sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.simulation.training.exchange import Link, beside, buckets, gathered
from twinlens.theory.waiting.shared import exposed_s


def test_buckets_are_filled_layer_by_layer_from_the_end_of_the_model() -> None:
    """Layers of 4 bytes, 1 s each; the first bucket is full at 1 byte, others at 8."""
    ready, sizes = buckets(np.full(6, 4.0), np.ones(6), bucket_bytes=8, first_bytes=1)
    assert ready.tolist() == [1, 3, 5, 6]
    assert sizes.tolist() == [4, 8, 8, 4]


def test_an_exchange_waits_for_its_gradients_and_for_the_one_before() -> None:
    """Ready at 1, 2, 6; each 2 s: 1–3, 3–5, 6–8. Backward ends at 7, so 1 s is exposed."""
    found = beside(np.array([1.0, 2.0, 6.0]), np.full(3, 2.0), 7.0)
    assert found.begin_s.tolist() == [1, 3, 6]
    assert found.end_s.tolist() == [3, 5, 8]
    assert found.exposed_s == 1.0
    assert found.total_s == 6.0


@given(st.floats(0.1, 10), st.integers(1, 30), st.floats(0.0, 3.0))
def test_buckets_alike_expose_what_the_closed_form_says(backward_s: float, many: int, each_s: float) -> None:
    ready = (np.arange(many) + 1) * backward_s / many
    found = beside(ready, np.full(many, each_s), backward_s)
    assert found.exposed_s == pytest.approx(exposed_s(backward_s, many, each_s), abs=1e-9)


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=20), st.floats(0, 50))
def test_no_more_is_exposed_than_is_exchanged_and_none_overlap(pairs: list[tuple[float, float]], extra: float) -> None:
    ready = np.sort([one for one, _ in pairs])
    lasts = np.array([other for _, other in pairs])
    found = beside(ready, lasts, float(ready[-1]) + extra)
    assert 0 <= found.exposed_s <= found.total_s + 1e-9
    assert (found.begin_s >= ready - 1e-9).all()
    assert (found.begin_s[1:] >= found.end_s[:-1] - 1e-9).all()
    assert found.total_s == pytest.approx(lasts.sum())


def test_weights_gathered_one_layer_ahead_expose_the_first_and_what_layers_are_too_short_for() -> None:
    """Layers 2 s, gathers 1 s: the first. Gathers of 3 s: 3 + 3·1 more at layers of 2 s (gathers go on end: 12 + 2)."""
    assert gathered(np.full(4, 2.0), np.ones(4)).exposed_s == 1.0
    slow = gathered(np.full(4, 2.0), np.full(4, 3.0))
    assert slow.end_s.tolist() == [3, 6, 9, 12]
    assert slow.exposed_s == 12 + 2 - 8
    assert gathered(np.full(4, 2.0), np.ones(4), ahead=0).exposed_s == 4.0


def test_a_link_takes_what_theory_says() -> None:
    """Ring of 4, 8 bytes at 6 bytes/s: 2·3/4·8/6 = 2 s, and 6 hops of 0.1 s."""
    link = Link(4, 6.0, hop_s=0.1)
    assert link.seconds("all-reduce", 8.0) == pytest.approx(2.6)
    assert link.seconds("all-gather", np.array([8.0, 16.0])) == pytest.approx([1.3, 2.3])
    assert Link(1, 6.0, 0.1).seconds("all-reduce", 8.0) == 0


def test_times_that_are_none_are_refused() -> None:
    with pytest.raises(BadInput, match="finite and not negative"):
        beside(np.array([1.0]), np.array([-1.0]), 1.0)
    with pytest.raises(BadInput, match="seconds of each layer"):
        buckets(np.ones(2), np.ones(3), 1, 1)
    with pytest.raises(BadInput, match="layers ahead"):
        gathered(np.ones(2), np.ones(2), -1)
