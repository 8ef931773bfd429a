"""What a plan keeps between two positions of a slider is what it would compute again."""

from __future__ import annotations

import numpy as np
import pytest

from twinlens.planning.choose.serving_choice import _numbered
from twinlens.planning.kept import keeps
from twinlens.planning.prediction.step_time import _roof


def test_an_answer_is_kept_for_equal_words_and_the_oldest_goes() -> None:
    asked: list[object] = []

    @keeps(2)
    def answer(word: dict[str, int], more: int) -> int:
        asked.append((word, more))
        return word["a"] + more

    assert [answer({"a": 1}, 1), answer({"a": 1}, 1), answer({"a": 2}, 1), answer({"a": 3}, 1)] == [2, 2, 3, 4]
    assert len(asked) == 3
    assert answer({"a": 1}, 1) == 2
    assert len(asked) == 4


def test_a_refusal_is_not_kept() -> None:
    refusals = iter([True, False])

    @keeps(2)
    def answer(word: int) -> int:
        if next(refusals):
            raise ValueError
        return word

    with pytest.raises(ValueError):  # noqa: PT011
        answer(1)
    assert answer(1) == 1


def test_rows_have_one_number_where_all_their_columns_are_equal_and_only_there() -> None:
    rows = np.random.default_rng(1).integers(0, 4, size=(3, 500))
    numbers = _numbered(*rows.astype(float))
    distinct = {tuple(row) for row in rows.T.tolist()}
    together = {(number, *row) for number, row in zip(numbers.tolist(), rows.T.tolist(), strict=True)}
    assert len(distinct) == len(set(numbers.tolist())) == len(together)


@pytest.mark.parametrize("rows", [3, 300])
def test_a_roof_is_the_fourth_root_of_the_sum_of_fourth_powers(rows: int) -> None:
    one, other = np.linspace(0.0, 2.0, rows), np.linspace(1.0, 0.0, rows)
    assert _roof(one, other) == pytest.approx((one**4 + other**4) ** 0.25)
    assert not _roof(0 * one, 0 * one).any()
