"""Quantiles of values prepared once are those of the values themselves, failures among them or not."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.step import STEP_SCHEMA, Steps
from twinlens.stats.estimator.dependence import slow_time
from twinlens.stats.estimator.quantile import Censored, censored_quantile


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(0, 3000),
    lost=st.sampled_from([0.0, 0.005, 0.2, 1.0]),
    together=st.sampled_from([1, 4]),
)
def test_quantiles_of_one_prepared_series_are_those_of_its_values(seed, size, lost, together) -> None:
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(size) < lost, np.inf, rng.lognormal(0, 0.3, size).round(2))
    prepared = Censored(values, together)
    for q in (0.99, 0.5, 0.9):
        alone = censored_quantile(values, q, unit="s", what="requests", together=together)
        assert censored_quantile(prepared, q, unit="s", what="requests") == alone


words = st.lists(st.sampled_from(["step", "evaluate"]), max_size=40)


@given(kinds=words, tags=st.lists(st.sampled_from(["compile", "", None]), max_size=40), parts=st.integers(1, 4))
def test_words_of_steps_are_read_as_they_were_written(kinds, tags, parts) -> None:
    rows = [
        {"kind": kind, "tag": tag, "begin_ns": 0, "end_ns": 1, "samples": 1, "tokens": 1}
        for kind, tag in zip(kinds, tags, strict=False)
    ]
    columns = {field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in STEP_SCHEMA}
    batches = pa.table(columns, schema=STEP_SCHEMA).to_batches(max_chunksize=max(1, -(-len(rows) // parts)))
    steps = Steps.from_table(pa.Table.from_batches(batches, schema=STEP_SCHEMA))
    assert steps.kind.tolist() == [row["kind"] for row in rows]
    assert steps.tag.tolist() == [row["tag"] for row in rows]


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 3000), share=st.sampled_from([0.0, 0.01, 0.5, 1.0]))
def test_slow_time_of_flags_is_that_of_the_same_numbers(seed, size, share) -> None:
    flags = np.random.default_rng(seed).random(size) < share
    assert math.isclose(slow_time(flags), slow_time(flags.astype(float)), rel_tol=1e-12)
