"""Orders of turns: every point as often in every place, and after every other as often as after any."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st

from twinlens.schedule.turn_order import rounds, williams

POINTS = st.integers(2, 12)


def test_two_points_go_first_in_turn() -> None:
    assert williams(2) == [(0, 1), (1, 0)]


def test_four_points_by_hand() -> None:
    assert williams(4) == [(0, 1, 3, 2), (1, 2, 0, 3), (2, 3, 1, 0), (3, 0, 2, 1)]


@given(POINTS)
def test_each_follows_each_equally_often(points: int) -> None:
    follows = Counter(pair for order in williams(points) for pair in pairwise(order))
    assert len(follows) == points * (points - 1)
    assert set(follows.values()) == {1 if points % 2 == 0 else 2}


@given(POINTS)
def test_each_stands_in_each_place_equally_often(points: int) -> None:
    places = Counter((place, point) for order in williams(points) for place, point in enumerate(order))
    assert len(set(places.values())) == 1
    assert len(places) == points**2


@given(POINTS, st.text(max_size=5))
def test_rounds_are_whole_and_the_seed_decides(points: int, seed: str) -> None:
    some = list(islice(rounds(points, seed), 5 * points))
    assert all(sorted(order) == list(range(points)) for order in some)
    assert some == list(islice(rounds(points, seed), 5 * points))


@given(POINTS)
def test_a_whole_design_keeps_its_balance_after_renaming(points: int) -> None:
    size = len(williams(points))
    follows = Counter(pair for order in islice(rounds(points, "7/0"), size) for pair in pairwise(order))
    assert len(set(follows.values())) == 1
