"""One test over many things fails as many tests would: for each thing, by its name."""

from __future__ import annotations

import pytest

from each import each


def test_every_thing_that_fails_is_named_and_none_that_holds() -> None:
    seen = []

    @each([3, 4, 5, 6])
    def odd(number: int) -> None:
        seen.append(number)
        assert number % 2, "even"

    with pytest.raises(pytest.fail.Exception, match="2 of 4 fail\n4: AssertionError: even") as failed:
        odd()
    assert seen == [3, 4, 5, 6], "it goes on after a failure"
    assert "\n6: AssertionError: even" in str(failed.value)
    assert "\n3:" not in str(failed.value)
    assert "\n5:" not in str(failed.value)


def test_what_raises_fails_and_what_holds_passes() -> None:
    each([(1, 1), (2, 2)])(lambda one, other: pytest.fail("they differ") if one != other else None)()
    with pytest.raises(pytest.fail.Exception, match=r"\(1, 2\): Failed: they differ"):
        each([(1, 2)])(lambda one, other: pytest.fail("they differ") if one != other else None)()
    with pytest.raises(pytest.fail.Exception, match="0: ZeroDivisionError"):
        each([0])(lambda number: 1 // number)()


def test_of_nothing_nothing_is_shown() -> None:
    with pytest.raises(AssertionError, match="nothing to test"):
        each([])(lambda thing: None)()
