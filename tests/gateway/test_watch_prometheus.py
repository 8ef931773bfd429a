"""The page for Prometheus: each outcome once, and no label that a client can write."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.test_watch_records import MS, answered, attempt

from twinlens.gateway.backend import Backend
from twinlens.gateway.outcome import Outcome
from twinlens.gateway.routing.state import State
from twinlens.gateway.watch.prometheus import NAME, Now, Times, page
from twinlens.gateway.watch.tally import Tally

GUIDE = Path(__file__).parents[2] / "docs" / "gateway.md"


def shown(*outcomes: Outcome, waiting: int = 0, rows_lost: int = 0) -> bytes:
    """The page after these requests, with three in flight at a, and two first tokens of b predicted, one rightly."""
    tally, times, states = Tally(), Times(), {name: State(Backend(name, "")) for name in "ab"}
    for each in outcomes:
        tally.add(each)
        times.add(each)
    states["a"].load.waiting = 3
    states["b"].ttft.held, states["b"].ttft.tried = 1, 2
    return page(times, Now(tally, states, waiting, rows_lost))


def read(page: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    samples = (each for family in text_string_to_metric_families(page.decode()) for each in family.samples)
    return {
        (each.name.removeprefix("twinlens_gateway_"), frozenset(each.labels.items())): each.value for each in samples
    }


def of(page: bytes, name: str, **labels: str) -> float:
    return read(page)[name, frozenset(labels.items())]


def test_each_outcome_counts_once_with_its_attempts() -> None:
    page = shown(
        answered(0, model="made up by a client"),
        answered(0, attempts=[attempt("b", 0, failure="hedged"), attempt("b", 0)], output_tokens=None),
        answered(0, attempts=[attempt("b", 0), attempt("a", 0, failure="hedged")], money=None),
        Outcome("r", "team", 0, end_ns=MS, ending="refused", status=429, model="made up by a client"),
        waiting=2, rows_lost=1,
    )  # fmt: skip
    assert of(page, "requests_total", backend="b", key="team", ending="ok") == 3
    assert of(page, "requests_total", backend="", key="team", ending="refused") == 1
    assert of(page, "refusals_total", key="team", status="429") == 1
    assert of(page, "retries_total", backend="a", failure="connect") == 1
    assert of(page, "hedges_total", backend="a") == of(page, "hedges_total", backend="b") == 1
    assert of(page, "tokens_total", backend="b", key="team", kind="output") == 12
    assert of(page, "uncounted_total", backend="b") == 1
    assert of(page, "money_total", backend="b", key="team") == float(2 * Decimal("0.00012"))
    assert of(page, "unpriced_total", backend="b") == 1
    assert of(page, "in_flight", backend="a") == 3
    assert of(page, "waiting") == 2
    assert of(page, "rows_lost") == 1
    assert of(page, "predictions_total", backend="b", held="yes") == 1
    assert of(page, "predictions_total", backend="b", held="no") == 1
    assert b"made up" not in page


def test_a_client_that_leaves_is_no_hedge() -> None:
    page = shown(answered(0, ending="left", attempts=[attempt("b", 0, failure="hedged")], output_tokens=None))
    assert of(page, "requests_total", backend="b", key="team", ending="left") == 1
    assert b"hedges_total{" not in page


def test_times_are_from_the_head() -> None:
    page = shown(answered(0), answered(0))  # first read at 20 ms, last at 50 ms with 5 tokens after the first
    assert of(page, "time_to_first_token_seconds_sum", backend="b") == 2 * 0.020
    assert abs(of(page, "time_per_output_token_seconds_sum", backend="b") - 2 * 0.030 / 5) < 1e-12
    assert of(page, "longest_gap_seconds_sum", backend="b") == 2 * 0.020


def test_the_guide_has_every_metric_with_its_labels_and_no_other() -> None:
    said = text_string_to_metric_families(shown(answered(0)).decode())
    families = [each for each in said if not each.name.endswith("_created")]  # the client library's own
    there = {each.name + ("_total" if each.type == "counter" else "") for each in families}
    told = set(re.findall(rf"^\| `({NAME}\w+)` \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE))
    assert told == there
    for each in families:
        labels = {name for sample in each.samples for name in sample.labels} - {"le"}
        row = next(line for line in GUIDE.read_text(encoding="utf-8").splitlines() if f"`{each.name}" in line)
        assert all(f"`{label}`" in row for label in labels), row
        assert each.documentation in row
