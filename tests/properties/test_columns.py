"""Columns of Arrow become the arrays that pyarrow's own conversion makes of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.column import floats, lists, numbers, words

sizes = st.lists(st.integers(0, 5), max_size=4)  # of the batches of a column, empty ones among them
whole = st.integers(-(2**53), 2**53)


def column(data: st.DataObject, values: st.SearchStrategy, kind: pa.DataType) -> pa.ChunkedArray:
    """A column in batches, some of which begin inside a longer one."""
    chunks = []
    for size in data.draw(sizes):
        before = data.draw(st.integers(0, 2))
        chunks.append(pa.array(data.draw(st.lists(values, min_size=size + before, max_size=size + before)), kind))
        chunks[-1] = chunks[-1][before:]
    return pa.chunked_array(chunks, kind)


@given(data=st.data())
def test_numbers_and_floats_are_those_of_pyarrow(data: st.DataObject) -> None:
    known = column(data, whole, pa.int64())
    assert numbers(known).tolist() == known.to_pylist()
    some = column(data, whole | st.none(), pa.int64())
    expected = np.array([np.nan if value is None else value for value in some.to_pylist()], dtype=float)
    for exact in (False, True):
        np.testing.assert_array_equal(floats(some, exact=exact), expected)


@given(data=st.data())
def test_words_and_lists_are_those_of_pyarrow(data: st.DataObject) -> None:
    said = column(data, st.sampled_from(["ok", "failed", None]), pa.string())
    assert words(said).tolist() == said.to_pylist()
    parts = column(data, st.lists(whole, max_size=3), pa.list_(pa.int64()))
    offsets, values = lists(parts)
    assert [values[a:b].tolist() for a, b in pairwise(offsets)] == parts.to_pylist()
    assert len(values) == offsets[-1]


def test_a_number_that_no_float_holds_is_rounded_unless_it_must_be_exact() -> None:
    beyond = pa.chunked_array([pa.array([2**53 + 1, None], pa.int64())])
    assert floats(beyond)[0] == 2.0**53
    with pytest.raises(pa.ArrowInvalid):
        floats(beyond, exact=True)
