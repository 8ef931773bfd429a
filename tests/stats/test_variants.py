"""Other tools' definitions, each worked by hand on the same few requests."""

from __future__ import annotations

import numpy as np
import pytest

from served_rows import columns, failed, poisson, queue, row
from twinlens.pages import find
from twinlens.spec.slo import Slo
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.peers.variants import by_cdf, by_rank, early_stopping, most_over, variants

# Three answers, all times in ms. Due at 0, 100, 200; sent 10 late; ends 5 after the last token.
# A: first at 50, then 60, 70, 80, 90 (5 tokens); B: first at 160, then 260 (2 tokens); C: one token at 230.
ROWS = [
    row(0, (50, 60, 70, 80, 90), sent_ms=10, end_ms=95, input_tokens=100),
    row(100, (160, 260), sent_ms=110, end_ms=265, input_tokens=50),
    row(200, (230,), sent_ms=210, end_ms=235, input_tokens=20),
]
FAILED = failed(250, 500, (300,), sent_ms=251)
THREE = columns(ROWS)
FOUR = columns([*ROWS, FAILED])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # TTFT from send: 40, 50, 20.
        ("vllm.mean_ttft_ms", 110 / 3),
        ("vllm.median_ttft_ms", 40.0),
        ("vllm.p99_ttft_ms", 49.8),  # numpy: 40 + 0.98 · 10
        # TPOT: 40/4 = 10 and 100/1 = 100; the answer of one token has none.
        ("vllm.mean_tpot_ms", 55.0),
        ("vllm.p99_tpot_ms", 99.1),
        # Gaps, pooled: 10, 10, 10, 10, 100.
        ("vllm.mean_itl_ms", 28.0),
        ("vllm.median_itl_ms", 10.0),
        # To the last token from send: 80, 150, 20.
        ("vllm.mean_e2el_ms", 250 / 3),
        # 3 answers, 8 + 170 tokens in 265 ms from the first due to the last end.
        ("vllm.request_throughput", 3 / 0.265),
        ("vllm.output_throughput", 8 / 0.265),
        ("vllm.total_token_throughput", 178 / 0.265),
        ("guidellm.time_to_first_token_ms_mean", 110 / 3),
        # (last - sent) / n: 80/5 = 16, 150/2 = 75, 20/1 = 20, weighted by 5, 2, 1: 250/8.
        ("guidellm.time_per_output_token_ms_mean", 31.25),
        ("guidellm.time_per_output_token_ms_p50", 16.0),  # five of eight tokens
        ("guidellm.time_per_output_token_ms_p99", 75.0),
        # 10 and 100 weighted by 4 and 1.
        ("guidellm.inter_token_latency_ms_mean", 28.0),
        ("guidellm.inter_token_latency_ms_p50", 10.0),
        # End - sent: 85, 155, 25.
        ("guidellm.request_latency_mean", 0.265 / 3),
        ("guidellm.requests_per_second", 3 / 0.255),
        ("aiperf.time_to_first_token_avg", 110 / 3),
        ("aiperf.inter_token_latency_avg", 55.0),
        ("aiperf.inter_chunk_latency_avg", 28.0),
        ("aiperf.request_latency_avg", 250 / 3),
        ("aiperf.output_token_throughput_per_user_avg", (100 + 10) / 2),
        ("aiperf.output_token_throughput", 8 / 0.255),
        # From the scheduled time: 50, 60, 30; the value of rank ⌊2.97⌋ = 2.
        ("mlperf.ttft_p99_ms", 60.0),
        # (end - first) / (n - 1): 45/4 and 105.
        ("mlperf.tpot_p99_ms", 105.0),
        ("mlperf.latency_p99_ms", 165.0),
        # (end - first) / (n - 1): 45/4 and 105; end - sent: 85, 155, 25.
        ("genai_bench.tpot_mean", (0.01125 + 0.105) / 2),
        ("genai_bench.e2e_latency_mean", 0.265 / 3),
        ("genai_bench.output_inference_speed_mean", (1 / 0.01125 + 1 / 0.105) / 2),
        # (end - sent) / n: 85/5 = 17, 155/2 = 77.5, 25.
        ("inference_perf.normalized_time_per_output_token_mean", 0.1195 / 3),
        ("inference_perf.time_per_output_token_mean", 0.055),
        ("inference_perf.inter_token_latency_mean", 0.028),
        ("inference_perf.request_latency_mean", 0.265 / 3),
    ],
)
def test_a_variant_is_what_that_tool_would_print(name: str, value: float) -> None:
    assert variants(THREE)[name].value == pytest.approx(value, rel=1e-9)


def test_aiperfs_own_example_comes_out() -> None:
    """Its documentation: first token after 255.886568 ms, latency 297.525228 ms, 9 tokens → 5.2048325 ms, 192.129/s."""
    chunks = np.linspace(255.886568, 297.525228, 9)
    figures = variants(columns([row(0, chunks)]))
    assert figures["aiperf.inter_token_latency_avg"].value == pytest.approx(5.2048325, rel=1e-6)
    assert figures["aiperf.output_token_throughput_per_user_avg"].value == pytest.approx(192.1291415, rel=1e-6)


def test_others_leave_failures_out_and_mlperf_counts_no_run_with_them() -> None:
    whole, broken = variants(THREE), variants(FOUR)
    for name in ("vllm.mean_ttft_ms", "guidellm.time_per_output_token_ms_mean", "aiperf.inter_chunk_latency_avg"):
        assert broken[name].value == pytest.approx(whole[name].value), name
    assert broken["mlperf.ttft_p99_ms"].value is None
    assert broken["mlperf.ttft_p99_ms"].reason == "1 requests failed; MLPerf counts no run with errors"


def test_aiperfs_adjusted_times_count_failures_as_endless() -> None:
    whole, broken = variants(THREE), variants(FOUR)
    assert whole["aiperf.adj_time_to_first_token_p50"].value == pytest.approx(40.0)
    assert whole["aiperf.adj_request_latency_p99"].value == whole["aiperf.request_latency_p99"].value
    assert broken["aiperf.adj_time_to_first_token_p50"].value == pytest.approx(45.0)  # of 20, 40, 50, endless
    assert broken["aiperf.adj_request_latency_p99"].value is None
    assert broken["aiperf.request_latency_p99"].value is not None


def test_early_stopping_is_of_a_single_stream() -> None:
    rows = columns([row(10 * n, (10 * n + 5,)) for n in range(700)])
    name = "mlperf.early_stopping_latency_p99_ms"
    assert variants(rows, single_stream=True)[name].value is not None
    assert "of a server it is a test" in (variants(rows)[name].reason or "")
    assert "mlperf.early_stopping_ttft_p99_ms" not in variants(rows, single_stream=True)


def test_inference_perf_has_gaps_of_nought_within_a_chunk() -> None:
    one = columns([row(0, (50, 60, 70), tokens=(1, 3, 1))])
    assert variants(one)["inference_perf.inter_token_latency_mean"].value == pytest.approx(0.020 / 4)
    assert variants(one)["vllm.mean_itl_ms"].value == pytest.approx(10.0)


def test_vllm_has_no_goodput_of_a_limit_that_it_does_not_know() -> None:
    found = variants(THREE, Slo(itl_s=0.5))["vllm.request_goodput"]
    assert (found.value, "names none of these" in (found.reason or "")) == (None, True)


def test_vllms_goodput_starts_at_send_and_excuses_single_tokens() -> None:
    # Within 45 ms from send: A and C; their TPOT: 10 ms, and 0 for the one token.
    good = variants(THREE, Slo(ttft_s=0.045, tpot_s=0.02))["vllm.request_goodput"]
    assert good.value == pytest.approx(2 / 0.265)
    assert "vllm.request_goodput" not in variants(THREE)


def test_a_percentile_by_share_is_the_first_value_to_reach_it() -> None:
    values, even = np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4)
    assert [by_cdf(values / 1000, even, q, "x").value for q in (0.25, 0.26, 0.5, 0.99)] == [1.0, 2.0, 2.0, 4.0]
    assert by_rank(values / 1000, 0.5, "x").value == 3.0
    assert by_rank(np.arange(100) / 1000, 0.99, "x").value == pytest.approx(99.0)


@pytest.mark.parametrize(
    ("n", "over"),
    [(458, -1), (459, 0), (661, 0), (662, 1), (837, 1), (838, 2), (1307, 5), (2010, 10), (5000, 33), (10_000, 77)],
)
def test_early_stopping_allows_what_the_published_table_allows(n: int, over: int) -> None:
    assert most_over(n, 0.99) == over


def test_early_stopping_takes_the_highest_value_that_is_allowed() -> None:
    values = np.random.default_rng(1).permutation(np.arange(838)) / 1000
    assert early_stopping(values[values < 0.661], 0.99, "x").value is None
    assert early_stopping(values[values < 0.662], 0.99, "x").value == 661.0  # t = 1: the highest
    assert early_stopping(values, 0.99, "x").value == 836.0  # t = 2: the second highest


def test_every_variant_has_a_unit_and_a_page_and_never_stands_in_our_own_tables() -> None:
    figures = variants(queue(poisson(12, 700, 2), np.full(700, 0.4), 8), Slo(ttft_s=1), single_stream=True)
    peers = {id: metric for id, metric in METRICS.items() if metric.group == "peer"}
    assert set(figures) == set(peers)
    assert {id: estimate.unit for id, estimate in figures.items()} == {id: m.unit for id, m in peers.items()}
    assert {find(id).kind for id in figures} == {"metrics"}
    assert all(estimate.value is not None and estimate.low is None for estimate in figures.values())


def test_a_run_without_tokens_or_without_answers_has_no_variants_or_says_why() -> None:
    assert variants(columns([])) == {}
    assert variants(columns([row(0, (5,), tokens=(0,), output_tokens=0)])) == {}
    dead = variants(columns([failed(0, 9, (5,))]))
    assert dead["vllm.mean_ttft_ms"].value is None
    assert dead["aiperf.output_token_throughput_per_user_avg"].value is None
