"""The page for Prometheus: each outcome once, and no label that a client can write."""

from __future__ import annotations

from decimal import Decimal

from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.test_watch_records import MS, answered, attempt

from twinlens.gateway.outcome import Outcome
from twinlens.gateway.watch.prometheus import Counters


def read(page: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    samples = (each for family in text_string_to_metric_families(page.decode()) for each in family.samples)
    return {
        (each.name.removeprefix("twinlens_gateway_"), frozenset(each.labels.items())): each.value for each in samples
    }


def of(page: bytes, name: str, **labels: str) -> float:
    return read(page)[name, frozenset(labels.items())]


def test_each_outcome_counts_once_with_its_attempts() -> None:
    counters = Counters()
    counters.add(answered(0, model="made up by a client"))
    counters.add(answered(0, attempts=[attempt("b", 0, failure="hedged"), attempt("b", 0)], output_tokens=None))
    counters.add(answered(0, money=None))
    counters.add(Outcome("r", "team", 0, end_ns=MS, ending="refused", status=429, model="made up by a client"))
    page = counters.page([("a", 3)], waiting=2, rows_lost=1)
    assert of(page, "requests_total", backend="b", key="team", ending="ok") == 3
    assert of(page, "requests_total", backend="", key="team", ending="refused") == 1
    assert of(page, "refusals_total", key="team", status="429") == 1
    assert of(page, "retries_total", backend="a", failure="connect") == 2
    assert of(page, "hedges_total", backend="b") == 1
    assert of(page, "tokens_total", backend="b", key="team", kind="output") == 12
    assert of(page, "uncounted_total", backend="b") == 1
    assert of(page, "money_total", backend="b", key="team") == float(2 * Decimal("0.00012"))
    assert of(page, "unpriced_total", backend="b") == 1
    assert of(page, "in_flight", backend="a") == 3
    assert of(page, "waiting") == 2
    assert of(page, "rows_lost") == 1
    assert b"made up" not in page


def test_times_are_from_the_head_and_a_band_holds_from_the_attempt_on() -> None:
    counters = Counters()
    counters.add(answered(0))  # first read at 20 ms, last at 50 ms with 5 tokens after the first; predicted 10–40 ms
    late = answered(0, attempts=[attempt("b", MS, first_ns=51 * MS)])
    counters.add(late)
    page = counters.page()
    assert of(page, "time_to_first_token_seconds_sum", backend="b") == 2 * 0.020
    assert abs(of(page, "time_per_output_token_seconds_sum", backend="b") - 2 * 0.030 / 5) < 1e-12
    assert of(page, "longest_gap_seconds_sum", backend="b") == 2 * 0.020
    assert of(page, "predictions_total", backend="b", held="yes") == 1  # 17 ms
    assert of(page, "predictions_total", backend="b", held="no") == 1  # 50 ms
