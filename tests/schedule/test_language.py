"""The synthetic language: its entropy rate by hand, and from a long sample."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.schedule.language import language

sizes = st.tuples(st.integers(1, 40), st.integers(1, 40), st.floats(0, 3), st.integers(0, 99))


@pytest.mark.parametrize(
    ("branches", "exponent", "nats"),
    [
        (1, 1.0, 0.0),
        (4, 0.0, math.log(4)),
        (2, 1.0, math.log(3) - 2 / 3 * math.log(2)),  # 2/3 and 1/3
        (4, 1.0, sum(p * math.log(25 / (25 * p)) for p in (12 / 25, 6 / 25, 4 / 25, 3 / 25))),
    ],
)
def test_the_entropy_rate_is_that_of_the_successors_worked_by_hand(branches: int, exponent: float, nats: float) -> None:
    assert language(64, branches, exponent, 0).entropy_rate_nats == pytest.approx(nats, abs=1e-12)


@given(sizes)
def test_successors_are_distinct_and_probabilities_fall_and_sum_to_one(parts: tuple[int, int, float, int]) -> None:
    symbols, branches, exponent, seed = parts
    grammar = language(symbols, branches, exponent, seed)
    assert grammar.successors.shape == (symbols, min(branches, symbols))
    assert ((grammar.successors >= 0) & (grammar.successors < symbols)).all()
    assert all(len(set(row)) == len(row) for row in grammar.successors.tolist())
    assert grammar.probabilities.sum() == pytest.approx(1)
    assert (np.diff(grammar.probabilities) <= 0).all()
    assert 0 <= grammar.entropy_rate_nats <= math.log(min(branches, symbols)) + 1e-12


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 12), st.integers(1, 6), st.floats(0, 2), st.integers(0, 99))
def test_a_long_sample_has_the_entropy_rate_it_says(symbols: int, branches: int, exponent: float, seed: int) -> None:
    grammar = language(symbols, branches, exponent, seed)
    text = grammar.sample(np.random.default_rng(seed), 40, 2000)
    pairs = Counter(zip(text[:, :-1].ravel().tolist(), text[:, 1:].ravel().tolist(), strict=True))
    lefts = Counter(text[:, :-1].ravel().tolist())
    total = sum(pairs.values())
    conditional = -sum(n * math.log(n / lefts[left]) for (left, _), n in pairs.items()) / total
    # The plug-in entropy is low by about (cells - states) / 2n and noisy by less than ln(branches) / sqrt(n).
    bias = symbols * branches / (2 * total)
    assert conditional == pytest.approx(
        grammar.entropy_rate_nats, abs=bias + 4 * math.log(branches + 1) / math.sqrt(total)
    )


@given(sizes)
def test_every_step_goes_to_a_successor(parts: tuple[int, int, float, int]) -> None:
    symbols, branches, exponent, seed = parts
    grammar = language(symbols, branches, exponent, seed)
    text = grammar.sample(np.random.default_rng(0), 3, 30)
    assert text.shape == (3, 30)
    assert text.dtype == np.int64
    for row in text.tolist():
        assert all(after in grammar.successors[before] for before, after in pairwise(row))


def test_a_seed_decides_the_grammar_and_the_generator_the_sentences() -> None:
    one, same, other = (language(32, 4, 1.0, seed) for seed in (1, 1, 2))
    assert (one.successors == same.successors).all()
    assert (one.successors != other.successors).any()
    first, second = (one.sample(np.random.default_rng(seed), 1, 64) for seed in (1, 2))
    assert (first != second).any()


def test_a_vocabulary_larger_than_a_block_is_made_whole() -> None:
    grammar = language(2500, 3, 1.0, 0)
    assert grammar.successors.shape == (2500, 3)
    assert len({tuple(row) for row in grammar.successors[1020:1030].tolist()}) > 1
