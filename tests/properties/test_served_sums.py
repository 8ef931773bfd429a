"""Sums over a million requests are taken by short ways; each is that of the plain way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from tests.served_rows import S, poisson, queue

from twinlens.record.request import Requests
from twinlens.spec.slo import Slo
from twinlens.stats.estimator.dependence import careful_time, normal_scores
from twinlens.stats.estimator.interval import clustering
from twinlens.stats.serving.goodput import fluidity, fluidity_index
from twinlens.stats.serving.latency import latency
from twinlens.stats.serving.metrics import _tokens_in
from twinlens.stats.steady.slope import in_flight

seeds = st.integers(0, 2**32 - 1)


def some(seed: int, count: int, tokens: int = 4) -> Requests:
    """Requests of a queue; some fail, some chunks hold several tokens or none, some come out of order."""
    rng = np.random.default_rng(seed)
    requests = queue(poisson(5.0, count, seed), rng.exponential(0.3, count), 2, tokens=tokens)
    chunk_ns = requests.chunk_ns.copy()
    if rng.random() < 0.3:
        chunk_ns[0], chunk_ns[1] = chunk_ns[1], chunk_ns[0]
    return replace(
        requests,
        outcome=np.where(rng.random(count) < 0.1, "failed", "ok").astype(object),
        chunk_ns=chunk_ns,
        chunk_tokens=rng.integers(0 if rng.random() < 0.3 else 1, 4, chunk_ns.size),
        output_tokens=rng.integers(0, 20, count),
    )


@given(seed=seeds, count=st.integers(1, 60), bins=st.integers(1, 30))
def test_tokens_of_each_interval_are_those_of_each_chunk(seed: int, count: int, bins: int) -> None:
    requests = some(seed, count)
    edges = np.linspace(0, requests.end_ns.max(), bins + 1).astype(np.int64)
    expected = np.zeros(bins)
    for row in np.flatnonzero(requests.ok):
        chunks = slice(requests.offsets[row], requests.offsets[row + 1])
        tokens = requests.chunk_tokens[chunks]
        if tokens.sum():
            weights = tokens * requests.output_tokens[row] / tokens.sum()
            expected += np.histogram(requests.chunk_ns[chunks], edges, weights=weights)[0]
    np.testing.assert_allclose(_tokens_in(requests, requests.ok, edges), expected, rtol=1e-12, atol=1e-9)


@given(seed=seeds, count=st.integers(1, 60), bins=st.integers(1, 30))
def test_those_in_flight_are_the_time_that_each_has_in_an_interval(seed: int, count: int, bins: int) -> None:
    requests = some(seed, count)
    edges = np.linspace(S // 2, requests.end_ns.max() + S, bins + 1).astype(np.int64)
    begin, end = requests.intended_ns, requests.end_ns
    shared = np.minimum(end, edges[1:, None]) - np.maximum(begin, edges[:-1, None])
    expected = np.maximum(shared, 0).sum(axis=1) / np.diff(edges)
    np.testing.assert_allclose(in_flight(begin, end, edges), expected, rtol=1e-12, atol=1e-9)


@given(seed=seeds, count=st.integers(0, 300), distinct=st.integers(1, 400))
def test_scores_of_ranks_are_those_of_distinct_values(seed: int, count: int, distinct: int) -> None:
    series = np.random.default_rng(seed).integers(0, distinct, count) / 7
    _, place, counts = np.unique(series, return_inverse=True, return_counts=True)
    expected = ndtri((np.cumsum(counts) - counts / 2) / max(1, count))[place]
    assert normal_scores(series).tolist() == expected.tolist()


@given(value=st.floats(0, 1e6), count=st.integers(1, 500))
def test_times_that_are_all_alike_cluster_as_their_ranks_do(value: float, count: int) -> None:
    alike = np.full(count, value)
    found, scores = clustering(alike), normal_scores(alike)
    assert (found.scores == scores).all()
    assert found.lasts == max(careful_time(alike, 1.0), careful_time(scores, 2.0))


@given(seed=seeds, count=st.integers(1, 60), first_s=st.floats(0.01, 2), next_s=st.floats(0.001, 0.3))
def test_answers_that_cannot_be_late_are_not_walked_through(
    seed: int, count: int, first_s: float, next_s: float
) -> None:
    requests, rows = some(seed, count), np.arange(count)
    times = latency(requests, rows)
    index = np.where(times.ok, fluidity_index(requests, rows, first_s, next_s), 0.0)
    found = fluidity(requests, rows, times, Slo(ttft_s=first_s, tpot_s=next_s))
    assert found["fluidity_index"].value == index.mean()
