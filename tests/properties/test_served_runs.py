"""What must hold for any served run: errors help nobody, units and order change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from served_rows import poisson, queue
from twinlens.record.request import Requests
from twinlens.spec.slo import Slo
from twinlens.stats.peers.variants import variants
from twinlens.stats.serving.goodput import fluidity_index, within
from twinlens.stats.serving.latency import gaps_s, latency
from twinlens.stats.serving.metrics import serving_metrics
from twinlens.stats.serving.window import LoopKind, Window, find_window
from twinlens.stats.steady.slope import in_flight

SLO = Slo(ttft_s=0.3, tpot_s=0.08, e2e_latency_s=0.9)
TIMES = ("ttft_s", "ttft_from_send_s", "tpot_s", "itl_s", "e2e_latency_s", "e2e_from_send_s")
SHARES = ("slo_attainment", "ttft_s_within", "tpot_s_within", "e2e_latency_s_within", "fluidity_index", "fluid_share")
RATES = ("goodput_per_s", "requests_per_s", "output_tokens_per_s", "total_tokens_per_s")
loops = st.sampled_from(["open", "closed", "whole"])


@st.composite
def runs(draw: st.DrawFn, least: int = 30, most: int = 450) -> Requests:
    """A queue with a random load, spread of service times and number of slots."""
    count, slots, seed = draw(st.integers(least, most)), draw(st.integers(1, 8)), draw(st.integers(0, 10**6))
    load = draw(st.floats(0.1, 1.5))
    needs = np.random.default_rng(seed).gamma(draw(st.sampled_from([0.5, 4.0, 100.0])), 1, count)
    needs *= 0.4 / needs.mean()
    return queue(
        poisson(load * slots / 0.4, count, seed), needs, slots, tokens=draw(st.integers(2, 6)), late=draw(st.booleans())
    )


def whole(requests: Requests, loop: LoopKind = "whole") -> Window:
    window = find_window(requests, loop)
    assert window is not None
    return window


@settings(deadline=None, max_examples=60)
@given(runs(), st.data())
def test_errors_never_improve_a_latency_a_share_or_a_rate(requests: Requests, data: st.DataObject) -> None:
    n = len(requests)
    broken = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True)))
    outcome = requests.outcome.copy()
    outcome[broken] = data.draw(st.sampled_from(["failed", "refused", "cut_off"]))
    window = whole(requests)  # the same for both: what is asked is what the same rows come to
    before = serving_metrics(requests, window, SLO, None)
    after = serving_metrics(replace(requests, outcome=outcome), window, SLO, None)
    for name in (f"{time}_{q}" for time in TIMES for q in ("p50", "p90", "p99")):
        then, now = (each[name].value if name in each else None for each in (before, after))
        if then is not None and now is not None:  # either may have too few independent values for a tail
            assert now >= then * (1 - 1e-12), name
    for name in SHARES + RATES:
        assert (after[name].value or 0.0) <= (before[name].value or 0.0) + 1e-12, name
    assert after["failed_share"].value == broken.size / n


@settings(deadline=None, max_examples=15)
@given(runs(), st.integers(0, 10**6))
def test_the_order_of_rows_changes_no_value(requests: Requests, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(requests))
    tokens = int(requests.offsets[1])
    columns = ("group", "intended_ns", "sent_ns", "end_ns", "input_tokens", "output_tokens", "outcome", "asked_tokens")
    moved = replace(
        requests,
        **{name: getattr(requests, name)[order] for name in columns},
        chunk_ns=requests.chunk_ns.reshape(-1, tokens)[order].ravel(),
    )
    for loop in ("open", "closed", "whole"):
        one, other = whole(requests, loop), whole(moved, loop)
        assert (one.label, one.first, one.begin_ns, one.end_ns) == (
            other.label,
            other.first,
            other.begin_ns,
            other.end_ns,
        )
        a, b = (serving_metrics(*pair, SLO, None) for pair in ((requests, one), (moved, other)))
        assert {k: v.value for k, v in a.items()} == {k: v.value for k, v in b.items()}
    a, b = variants(requests, SLO), variants(moved, SLO)
    for name in a:
        assert np.isclose(a[name].value or 0, b[name].value or 0, rtol=1e-9), name


@settings(deadline=None, max_examples=40)
@given(runs(), st.integers(2, 1000), loops)
def test_slower_clocks_scale_times_and_rates_and_nothing_else(requests: Requests, factor: int, loop: LoopKind) -> None:
    scaled = replace(
        requests,
        **{name: getattr(requests, name) * factor for name in ("intended_ns", "sent_ns", "end_ns", "chunk_ns")},
    )
    slower = Slo(ttft_s=0.3 * factor, tpot_s=0.08 * factor, e2e_latency_s=0.9 * factor)
    one, other = whole(requests, loop), whole(scaled, loop)
    assert (one.label, one.first) == (other.label, other.first)
    a, b = serving_metrics(requests, one, SLO, None), serving_metrics(scaled, other, slower, None)
    assert a.keys() == b.keys()
    for name, estimate in a.items():
        # Edges of slices are rounded to whole nanoseconds, so a token may fall on either side of one.
        if estimate.value is None or name.endswith("_per_s") or name == "mean_in_flight":
            continue
        power = {"s": 1, "1": 0, "tokens/s": -1}[estimate.unit]
        assert np.isclose(b[name].value or 0.0, estimate.value * factor**power, rtol=1e-9), name
    for name in RATES:
        assert np.isclose((b[name].value or 0.0) * factor, a[name].value or 0.0, rtol=0.02, atol=1e-9), name


@settings(deadline=None, max_examples=60)
@given(runs(), loops)
def test_every_value_lies_in_its_interval_and_every_share_between_nothing_and_all(
    requests: Requests, loop: LoopKind
) -> None:
    window = whole(requests, loop)
    assert window.begin_ns <= requests.intended_ns[window.rows].min()
    for name, found in serving_metrics(requests, window, SLO, 2).items():
        if found.value is None:
            assert found.reason, name
            continue
        assert found.value >= 0, name
        assert found.low is None or found.low <= found.value, name
        assert found.high is None or found.value <= found.high, name
        if name in SHARES:
            assert max(found.value, found.high or 0.0) <= 1, name


@settings(deadline=None, max_examples=60)
@given(runs(), st.data())
def test_an_answer_that_comes_later_is_never_better(requests: Requests, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(requests) - 1))
    delay_ns = data.draw(st.integers(0, 2 * 10**9))
    tokens = int(requests.offsets[1])
    begin = row * tokens + data.draw(st.integers(0, tokens - 1))
    chunk_ns, end_ns = requests.chunk_ns.copy(), requests.end_ns.copy()
    chunk_ns[begin : (row + 1) * tokens] += delay_ns
    end_ns[row] += delay_ns
    later = replace(requests, chunk_ns=chunk_ns, end_ns=end_ns)
    rows = np.arange(len(requests))
    was, now = latency(requests, rows), latency(later, rows)
    assert (now.ttft_s >= was.ttft_s).all()
    assert (now.e2e_s >= was.e2e_s).all()
    for name, kept in within(now, SLO).items():
        # A later first token shortens what comes after it, so TPOT alone may gain.
        if name != "tpot_s":
            assert (kept <= within(was, SLO)[name]).all(), name


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 500)), min_size=1, max_size=40),
    st.integers(1, 20),
)
def test_requests_in_flight_add_up_to_their_stays(stays, slices: int) -> None:
    begin = np.array([at for at, _ in stays])
    end = begin + np.array([stay for _, stay in stays])
    edges = np.linspace(0, 2000, slices + 1).astype(np.int64)
    found = in_flight(begin, end, edges)
    assert (found >= -1e-9).all()
    assert np.isclose(float(found @ np.diff(edges)), float((end - begin).sum()))


@given(runs(most=60))
def test_gaps_of_an_answer_add_up_to_its_stay_after_the_first_token(requests: Requests) -> None:
    rows = np.arange(len(requests))
    total_s = (requests.last_chunk_ns() - requests.first_chunk_ns()).sum() / 1e9
    assert np.isclose(gaps_s(requests, rows).sum(), total_s)


@settings(deadline=None, max_examples=60)
@given(runs(most=60), st.floats(0.0, 1.0), st.floats(0.001, 0.3), st.integers(0, 3))
def test_fluidity_is_that_of_a_walk_from_token_to_token(
    requests: Requests, ttft_s: float, tpot_s: float, more: int
) -> None:
    tokens = 1 + np.arange(requests.chunk_tokens.size) % (more + 1)
    requests = replace(requests, chunk_tokens=tokens)
    found = fluidity_index(requests, np.arange(len(requests)), ttft_s, tpot_s)
    assert found == pytest.approx([_walked(requests, i, ttft_s, tpot_s) for i in range(len(requests))], abs=1e-12)


def _walked(requests: Requests, i: int, ttft_s: float, tpot_s: float) -> float:
    """Deadline by deadline, in plain Python."""
    before, slack, met, missed = float(requests.intended_ns[i]), 0.0, 0, 0.0
    for at in range(int(requests.offsets[i]), int(requests.offsets[i + 1])):
        now, first = float(requests.chunk_ns[at]), at == requests.offsets[i]
        spare = slack + (ttft_s if first else tpot_s) - (now - before) / 1e9
        others = int(requests.chunk_tokens[at]) - 1
        if spare < -1e-12:
            missed, spare = missed + np.floor(-spare / tpot_s + 1e-9) + 1, 0.0
        else:
            met += 1
        met, slack, before = met + others, spare + others * tpot_s, now
    return met / (met + missed)
