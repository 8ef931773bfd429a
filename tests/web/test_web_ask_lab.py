"""The batching lab: the same arrivals side by side, in lanes, and nothing of the server's disk."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_web_door import asked

from simulated_material import table
from twinlens.errors import BadInput
from twinlens.web.ask.lab import lab_words
from twinlens.web.ask.timeline import MOST_REQUESTS, lanes_of, moments, track

EXAMPLES = ["serve-vllm-gpu", "chat"]
SMALL = {"spec": "serve-vllm-gpu", "device": "H100", "at": "rate_per_s=4", "batching": "continuous,static(4)",
         "seeds": "1", "set": "protocol.duration_s=4"}  # fmt: skip


@pytest.fixture(scope="module")
def url(served, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with served(tmp_path_factory.mktemp("runs")) as found:
        yield found


def test_a_lane_is_the_lowest_that_is_free() -> None:
    """By hand: the second is due while the first runs, the third when the first has just ended."""
    requests = [(0.0, 0.0, 1.0, 2.0), (1.0, 1.0, 2.0, 5.0), (2.0, 2.0, 3.0, 4.0), (3.0, 3.0, 3.5, 6.0)]
    assert lanes_of(requests) == [0, 1, 0, 2]


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.01, 9)), max_size=40))
def test_no_lane_holds_two_requests_at_a_time(told: list[tuple[float, float]]) -> None:
    requests = [(due, due, due, due + lasts) for due, lasts in sorted(told)]
    lanes = lanes_of(requests)
    for place, (due, _, _, _) in enumerate(requests):
        held = [lanes[other] for other in range(place) if requests[other][3] > due]
        assert lanes[place] not in held
    assert set(lanes) == set(range(max(lanes, default=-1) + 1))


def test_moments_are_those_of_the_rows() -> None:
    rows = table(rate=8.0, seconds=5.0)
    found = moments(rows)
    first = next(row for row in rows.sort_by("intended_ns").to_pylist() if row["outcome"] == "ok")
    assert found[0] == pytest.approx(
        (first["intended_ns"] / 1e9, first["intended_ns"] / 1e9, first["chunk_ns"][0] / 1e9, first["end_ns"] / 1e9)
    )
    assert all(due <= let_go <= token <= end for due, let_go, token, end in found)


def test_a_request_that_failed_or_got_no_token_is_in_no_lane() -> None:
    rows = table(rate=8.0, seconds=5.0)
    whole = rows.to_pylist()
    whole[0]["outcome"], whole[1]["chunk_ns"], whole[2]["end_ns"] = "failed", [], None
    assert len(moments(pa.Table.from_pylist(whole, rows.schema))) == len(moments(rows)) - 3
    assert moments(rows.slice(0, 0)) == []
    assert track("none", "simulated", rows.slice(0, 0))["requests"] == []


def test_of_a_long_run_the_middle_is_shown_from_zero() -> None:
    shown = track("long", "measured", table(rate=8.0, seconds=60.0))
    assert len(shown["requests"]) == MOST_REQUESTS < shown["of"]
    assert shown["requests"][0][0] == 0
    assert shown["from_s"] > 1


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("spec", "/etc/passwd"),
        ("spec", "../runs"),
        ("law", "law.toml"),
        ("out", "/tmp"),
        ("with", "pretrain"),
        ("device", "../x"),
        ("set", "workload.model=/etc/passwd"),
        ("set", "workload.prompts=/etc/passwd"),
        ("set", "executor.command=sh"),
        ("seeds", "11"),
        ("set", "protocol.duration_s=4000"),
    ],
)
def test_the_lab_reads_no_file_and_plays_nothing_endless(name: str, word: str) -> None:
    with pytest.raises(BadInput):
        lab_words({**SMALL, name: word}, EXAMPLES)


def test_policies_stand_side_by_side_with_their_timelines(url: str) -> None:
    status, _, body = asked(url, f"/lab?{urlencode(SMALL)}")
    assert status == 200
    assert body.count("data-lane=") == 2
    assert "simulated" in body
    assert "twinlens simulate --device H100 " in body
    data = json.loads(asked(url, f"/lab?{urlencode({**SMALL, 'as': 'json'})}")[2])
    due = [[round(one[0] + each["from_s"], 2) for one in each["requests"]] for each in data["timelines"]]
    assert due[0] == due[1]  # the same arrivals
    assert {each["origin"] for each in data["timelines"]} == {"simulated"}


def test_wrong_words_of_the_lab_keep_the_form(url: str) -> None:
    status, _, body = asked(url, f"/lab?{urlencode({**SMALL, 'device': 'H1OO'})}")
    assert status == 400
    assert 'value="H1OO"' in body
    assert 'role="alert"><p>' in body
