"""What nobody thought of: seeded, so that today's failure is tomorrow's too. By hand: `python tests/fuzz NAME`."""

from __future__ import annotations

import random

import http_bytes
import pytest
from checks import CHECKS
from frame import Failed, fuzz
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_what_is_spoilt_at_random_is_treated_as_it_should_be(name: str) -> None:
    check, count = CHECKS[name]
    assert fuzz(check, count=count) == count


@given(st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_an_answer_good_or_spoilt_has_one_outcome_however_it_is_cut(source: random.Random) -> None:
    http_bytes.check(source)


def test_a_failure_names_the_seed_that_makes_it_again() -> None:
    def check(source: random.Random) -> None:
        assert source.random() < 0.9

    with pytest.raises(Failed, match="seed ") as failed:
        fuzz(check, count=1000)
    with pytest.raises(Failed):
        fuzz(check, count=1, seed=int(str(failed.value).split()[1].rstrip(":")))
