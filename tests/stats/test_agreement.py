"""Whether server and client counted the same run: worked by hand, with somebody else in it, and with failures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from served_rows import columns, failed, row
from server_samples import samples
from twinlens.record.request import Requests
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.server.agreement import ServerAgreement, ServerRows, agreement

N = 100
TTFT_MS = 50.0


def requests(count: int = N) -> Requests:
    """Every 100 ms one, first token after 50 ms, ten tokens 10 ms apart."""
    return columns(
        row(100.0 * i, [100.0 * i + TTFT_MS + 10 * k for k in range(10)], outcome="ok", asked_tokens=10)
        for i in range(count)
    )


def server(tokens: float, finished: float, ttft_s: float, first_at: float = -0.5, last_at: float = 11.0) -> Any:
    """Two readings, the counters growing by what is given."""
    before = {"generation_tokens": 70, "finished": 7, "ttft_sum_s": 3.0, "ttft_count": 7}
    grown = {"generation_tokens": tokens, "finished": finished, "ttft_sum_s": finished * ttft_s, "ttft_count": finished}
    after = {name: before[name] + value for name, value in grown.items()}
    return ServerRows.from_table(samples([{"at": first_at, **before}, {"at": last_at, **after}]))


def values(found: ServerAgreement) -> dict[str, float | None]:
    return {name.removeprefix("server_"): estimate.value for name, estimate in found.metrics.items()}


def test_a_server_that_counts_what_the_client_counts_agrees_without_a_word() -> None:
    shares = agreement(server(10 * N, N, 0.048), requests())
    assert values(shares) == {
        "tokens_agreement": 1.0,
        "requests_agreement": 1.0,
        "ttft_agreement": pytest.approx(0.96),
    }
    assert shares.notes == ()
    method = shares.metrics["server_tokens_agreement"].method
    assert method.startswith(
        "1,000 generated tokens at the server, 1,000 at the client, over the whole run; up to 1.0 %"
    )


@pytest.mark.parametrize(("finished", "value"), [(4 * N, 1.0), (N, 1.0), (6 * N, 1.5)])
def test_a_server_may_count_each_text_of_a_request(finished: int, value: float) -> None:
    shares = agreement(server(10 * N, finished, 0.048), requests(), items=4)
    assert values(shares)["requests_agreement"] == value
    assert (shares.notes == ()) == (value == 1.0)


def test_somebody_else_on_the_same_server_is_seen_in_both_counts() -> None:
    shares = agreement(server(15 * N, N + 50, 0.048), requests())
    assert values(shares)["tokens_agreement"] == 1.5
    assert len(shares.notes) == 2
    assert sentence_of(shares.notes[0]) == (
        "Server and client disagree: 1,500 generated tokens at the server, 1,000 at the client; a difference of up to "
        "1.0 % is expected; another client uses this server too, or the client does not count tokens."
    )
    assert "150 finished requests at the server, 100 at the client" in sentence_of(shares.notes[1])


def test_chunks_counted_as_tokens_are_seen_in_the_tokens_alone() -> None:
    shares = agreement(server(25 * N, N, 0.048), requests())
    assert ["generated tokens" in sentence_of(note) for note in shares.notes] == [True]


@pytest.mark.parametrize(("extra", "silent"), [(10, True), (11, False)])
def test_one_per_cent_is_to_be_expected_and_no_more(extra: int, silent: bool) -> None:
    assert (agreement(server(10 * N + extra, N, 0.048), requests()).notes == ()) == silent


def test_what_failed_may_or_may_not_have_been_answered_by_the_server() -> None:
    broken = [failed(100.0 * i, 100.0 * i + 30, asked_tokens=10) for i in range(90, 100)]
    whole = [row(100.0 * i, [100.0 * i + 50 + 10 * k for k in range(10)], asked_tokens=10) for i in range(90)]
    mixed = columns([*whole, *broken])
    for answered in (900, 950, 1000):
        assert agreement(server(answered, answered / 10, 0.048), mixed).notes == ()
    assert len(agreement(server(1100, 110, 0.048), mixed).notes) == 2


def test_what_is_under_way_at_an_edge_widens_what_is_to_be_expected() -> None:
    # The first reading came after the first two requests had begun, one of which was still under way.
    late = server(10 * N - 15, N - 2, 0.048, first_at=0.12)
    shares = agreement(late, requests())
    assert shares.notes == ()
    assert "985 generated tokens at the server, 980 at the client" in shares.metrics["server_tokens_agreement"].method


def test_a_cut_off_answer_is_finished_on_both_sides() -> None:
    rows = [row(100.0 * i, [100.0 * i + 50], outcome="cut_off", asked_tokens=10) for i in range(N)]
    shares = agreement(server(N, N, 0.048), columns(rows))
    assert values(shares)["requests_agreement"] == 1.0


def test_time_between_the_client_and_the_engine_is_named() -> None:
    shares = agreement(server(10 * N, N, 0.020), requests())
    assert values(shares)["ttft_agreement"] == pytest.approx(0.4)
    assert tuple(map(sentence_of, shares.notes)) == (
        "Server and client disagree: mean TTFT 20.0 ms at the server, 50.0 ms from send at the client; the "
        "difference is 30.0 ms, and up to 7.00 ms is expected. Requests wait in the network, "
        "or before the engine takes them.",
    )


def test_a_server_that_saw_its_first_tokens_later_than_the_client_contradicts_it() -> None:
    shares = agreement(server(10 * N, N, 0.052), requests())
    assert "the server's time cannot be the longer one" in sentence_of(shares.notes[0])
    assert agreement(server(10 * N, N, 0.0512), requests()).notes == ()


def test_a_restart_leaves_nothing_to_compare() -> None:
    rows = samples(
        [{"at": -1, "generation_tokens": 500, "finished": 9}, {"at": 11, "generation_tokens": 40, "finished": 2}]
    )
    shares = agreement(ServerRows.from_table(rows), requests())
    assert set(values(shares).values()) == {None}
    reason = shares.metrics["server_tokens_agreement"].reason
    assert reason is not None
    assert "started again" in reason
    assert shares.notes == ()


def test_a_client_that_got_nothing_has_no_ratio() -> None:
    nothing = columns(failed(100.0 * i, 100.0 * i + 5) for i in range(5))
    shares = agreement(server(0, 0, 0.0), nothing)
    assert set(values(shares).values()) == {None}


def test_the_order_of_rows_does_not_matter() -> None:
    given = requests()
    order = np.random.default_rng(3).permutation(N)
    shuffled = columns(
        row(100.0 * i, [100.0 * i + TTFT_MS + 10 * k for k in range(10)], outcome="ok", asked_tokens=10)
        for i in order.tolist()
    )
    rows = server(10 * N, N, 0.048)
    assert values(agreement(rows, given)) == values(agreement(rows, shuffled))
