"""The inference lens on rows written by hand."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
import pytest

from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.request import REQUEST_SCHEMA, Request, RequestOutcome, Requests
from twinlens.stats.estimator.ratio import of_ceiling
from twinlens.stats.metrics.inference import inference_metrics, inference_steadiness

MS = 1_000_000


def requests_of(rows: list[Request]) -> Requests:
    return Requests.from_table(pa.Table.from_pylist([asdict(row) for row in rows], schema=REQUEST_SCHEMA))


def batches(
    count: int, size: int = 1, tokens: int = 5, outcome: RequestOutcome = "ok", input_tokens: int = 16
) -> list[Request]:
    """Batches of 100 ms, back to back: the first token after 60 ms, the others 10 ms apart."""
    made = []
    for group in range(count):
        begin = group * (60 + 10 * (tokens - 1)) * MS
        chunk_ns = tuple(begin + (60 + 10 * i) * MS for i in range(tokens))
        one = Request(
            group, begin, begin + 2 * MS, chunk_ns, (1,) * tokens, chunk_ns[-1], input_tokens, tokens, outcome
        )
        made += [one] * size
    return made


def facts_with_ceilings() -> Facts:
    return Facts(
        ExecutorRecord({}),
        work={
            "decode_bytes": Estimate(1e9, "bytes", "by hand", "modelled"),
            "linear_bytes": Estimate(8e8, "bytes", "by hand", "derived"),
            "prefill_flop": Estimate(6e9, "flop", "by hand", "modelled"),
        },
        ceilings={
            "read_bytes_per_s": Estimate(200e9, "bytes/s", "by hand", "measured"),
            "matvec_bytes_per_s": Estimate(160e9, "bytes/s", "by hand", "measured"),
            "matrix_flop_per_s": Estimate(1e12, "flop/s", "by hand", "measured"),
        },
    )


def found(rows: list[Request], facts: Facts | None = None) -> dict[str, Estimate]:
    requests = requests_of(rows)
    heads, steadiness = inference_steadiness(requests)
    return inference_metrics(requests, heads, steadiness, facts)


def values(rows: list[Request], facts: Facts | None = None) -> dict[str, float | None]:
    return {name: estimate.value for name, estimate in found(rows, facts).items()}


def test_times_and_rates_by_hand() -> None:
    value = values(batches(200))
    assert value["ttft_s_p50"] == pytest.approx(0.060), "from the intended time, not from when it was sent"
    assert value["tpot_s_p50"] == pytest.approx(0.010), "the first token is not in it"
    assert value["itl_s_p50"] == value["itl_s_p90"] == value["itl_s_p99"] == pytest.approx(0.010)
    assert value["e2e_latency_s_p90"] == pytest.approx(0.100)
    assert value["output_tokens_per_s"] == pytest.approx(50)
    assert value["requests_per_s"] == pytest.approx(10)
    assert value["prefill_tokens_per_s"] == pytest.approx(16 / 0.060)
    assert value["decode_tokens_per_s"] == value["tokens_per_s_per_request"] == pytest.approx(100)
    assert value["failed_share"] == 0


def test_a_batch_multiplies_rates_and_not_times_nor_observations() -> None:
    one, four = found(batches(200)), found(batches(200, size=4))
    for name in ("output_tokens_per_s", "requests_per_s", "prefill_tokens_per_s", "decode_tokens_per_s"):
        assert four[name].value == pytest.approx(4 * (one[name].value or 0)), name
    for name in ("ttft_s_p50", "tpot_s_p50", "e2e_latency_s_p50", "tokens_per_s_per_request"):
        assert four[name].value == pytest.approx(one[name].value), name
        assert four[name].n == one[name].n, name


def test_gaps_between_requests_are_no_gaps_between_tokens() -> None:
    assert values(batches(800, tokens=2))["itl_s_p99"] == pytest.approx(0.010)
    only_one = values(batches(200, tokens=1))
    assert not [name for name in only_one if name.startswith(("tpot", "itl", "decode"))]
    assert only_one["ttft_s_p50"] == pytest.approx(0.060)


def test_what_failed_is_counted_and_earns_nothing() -> None:
    rows = batches(200)
    rows = [row if i % 4 else Request(**{**as_dict(row), "outcome": "failed"}) for i, row in enumerate(rows)]
    value = values(rows)
    assert value["failed_share"] == pytest.approx(0.25)
    assert value["requests_per_s"] == pytest.approx(7.5, rel=0.02)
    assert value["output_tokens_per_s"] == pytest.approx(37.5, rel=0.02)


def test_a_request_that_failed_is_slower_than_any_that_did_not() -> None:
    """One request in four failed, and p90 was that of the other three; served runs count it."""
    rows = [replace(row, outcome="failed") if i % 4 == 0 else row for i, row in enumerate(batches(200))]
    metrics = found(rows)
    for name in ("e2e_latency_s", "ttft_s", "tpot_s"):
        assert metrics[f"{name}_p50"].value == pytest.approx(values(batches(200))[f"{name}_p50"])
        assert metrics[f"{name}_p90"].value is None
        assert "p90 falls among the" in (metrics[f"{name}_p90"].reason or "")


def as_dict(row: Request) -> dict[str, Any]:
    return asdict(row)


def test_when_everything_failed_times_are_absent_and_not_zero() -> None:
    metrics = found(batches(50, outcome="failed"))
    assert metrics["failed_share"].value == 1
    assert metrics["e2e_latency_s_p50"].value is None
    assert metrics["e2e_latency_s_p50"].reason


def test_work_of_uneven_prompts_is_not_set_against_a_ceiling() -> None:
    """The FLOP of the longest over the median TTFT gave twice the rate of prompts between 16 and 1,024 tokens."""
    even, uneven = batches(200), [replace(row, input_tokens=16 + row.group % 50) for row in batches(200)]
    known = facts_with_ceilings()
    assert found(even, known)["prefill_mfu"].value is not None
    for name in ("prefill_mfu", "mbu"):
        one = found(uneven, known)[name]
        assert one.value is None
        assert "modelled for the longest only" in (one.reason or "")


def test_a_share_of_a_ceiling_has_no_interval_within_one_run() -> None:
    """Three runs minutes apart said 13.5-15.8, 18.4-22.6 and 24.4-30.9 %, each "95 %": the ceiling had moved."""
    rate = Estimate(50.0, "FLOP/s", "m", "measured", 49.0, 51.0, 0.95, 100)
    ceiling = Estimate(100.0, "FLOP/s", "m", "measured", 99.0, 101.0, 0.95, 9)
    shared = of_ceiling(rate, ceiling)
    assert (shared.value, shared.low, shared.high) == (0.5, None, None)
    assert "does not show how far its ceiling moves" in (shared.no_interval or "")


def test_requests_of_uneven_length_have_no_peak() -> None:
    short, long = batches(100, tokens=3), batches(100, tokens=5)
    shift = short[-1].end_ns
    moved = [
        Request(
            row.group + 100, row.intended_ns + shift, row.sent_ns + shift, tuple(t + shift for t in row.chunk_ns),
            row.chunk_tokens, row.end_ns + shift, row.input_tokens, row.output_tokens,
        )
        for row in long
    ]  # fmt: skip
    metrics = found([*short, *moved])
    assert metrics["retention"].value is None
    assert "differ in length" in (metrics["retention"].reason or "")


def test_images_are_answers_of_one_chunk_without_tokens() -> None:
    rows = [
        Request(i, i * 20 * MS, i * 20 * MS, ((i + 1) * 20 * MS,), (0,), (i + 1) * 20 * MS, 0, 0) for i in range(200)
    ]
    value = values(rows)
    assert value["inference_images_per_s"] == pytest.approx(50)
    assert value["e2e_latency_s_p50"] == pytest.approx(0.02)
    assert not [name for name in value if "token" in name or name.startswith("ttft")]


def test_mbu_is_bytes_of_a_decode_step_over_its_time_and_the_bandwidth() -> None:
    value = values(batches(200), facts_with_ceilings())
    assert value["mbu"] == pytest.approx(1e9 / 0.010 / 200e9)
    assert value["matvec_share"] == pytest.approx(8e8 / 0.010 / 160e9)
    assert value["prefill_mfu"] == pytest.approx(6e9 / 0.060 / 1e12)


def test_no_rows_are_no_error() -> None:
    assert found([]) == {}
