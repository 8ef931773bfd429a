"""Recorded traffic, in the very formats in which it is published, and what is said of files that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlens.errors import BadInput
from twinlens.schedule.plan import Plan
from twinlens.schedule.trace_file import Recorded, read_trace
from twinlens.spec.workload.arrival import Trace

TRACES = Path(__file__).parents[1] / "vectors" / "traces"
SECOND = 10**9


def read(name: str | Path, kind: str, seconds: float = 1e6, **fields: float) -> Recorded:
    return read_trace(Trace(path=str(TRACES / name), format=kind, **fields), seconds, prompt_seed=3)  # type: ignore[arg-type]


def columns(plan: Plan) -> list[tuple[int, int, int]]:
    return [(scheduled.intended_ns, scheduled.input_tokens, scheduled.output_tokens) for scheduled in plan]


def test_azure_dates_keep_their_seventh_digit_and_cross_midnight() -> None:
    heads = columns(read("azure.csv", "azure").plan)
    assert heads == [(0, 374, 44), (1_000_000_100, 396, 109), (2 * SECOND, 879, 55)]


def test_azure_2024_has_zones_and_a_file_may_have_a_mark_blank_lines_and_returns() -> None:
    heads = columns(read("azure_2024.csv", "azure").plan)
    assert heads == [(0, 2162, 5), (7_405_000, 2399, 6), (990_070_000, 76, 15)]


def test_burstgpt_counts_seconds_and_its_failures_cannot_be_asked_for() -> None:
    recorded = read("burstgpt.csv", "burstgpt")
    assert columns(recorded.plan) == [(0, 472, 18), (40 * SECOND, 1087, 230), (113 * SECOND, 417, 276)]
    assert recorded.unusable == 1


def test_burstgpt_with_sessions_has_its_columns_elsewhere() -> None:
    assert columns(read("burstgpt_sessions.csv", "burstgpt").plan) == [(0, 12, 30), (1_250_000_000, 80, 7)]


def test_mooncake_counts_milliseconds_and_names_blocks() -> None:
    plan = read("mooncake.jsonl", "mooncake").plan
    assert columns(plan) == [(0, 1100, 52), (3_053_000_000, 1536, 26), (3_053_000_000, 600, 500)]
    assert [scheduled.blocks for scheduled in plan] == [(46, 47, 48), (46, 47, 49), (50, 51)]


def test_a_plain_file_may_be_out_of_order() -> None:
    assert columns(read("plain.csv", "csv").plan) == [(0, 8, 2), (SECOND // 4, 16, 4), (SECOND // 2, 32, 1)]


def test_a_trace_played_faster_keeps_its_lengths_and_its_duration_is_that_of_the_run() -> None:
    plan = read("burstgpt.csv", "burstgpt", seconds=21.0, speedup=2.0).plan
    assert columns(plan) == [(0, 472, 18), (20 * SECOND, 1087, 230)]


def test_a_trace_may_begin_in_its_middle() -> None:
    assert columns(read("burstgpt.csv", "burstgpt", start_s=39.0).plan)[0] == (SECOND, 1087, 230)


def test_rows_in_disorder_are_kept_and_reading_stops_well_after_the_end(tmp_path: Path) -> None:
    late = tmp_path / "late.csv"
    late.write_text("time_s,input_tokens,output_tokens\n0,1,1\n65,2,2\n8,3,3\n500,4,4\nrubbish,5,5\n", "utf-8")
    assert columns(read(late, "csv", seconds=10.0).plan) == [(0, 1, 1), (8 * SECOND, 3, 3)]


HEADS = {"azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n", "csv": "time_s,input_tokens,output_tokens\n"}


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("csv", "time,input_tokens,output_tokens\n0,1,1\n", "line 1: no column 'time_s'"),
        ("csv", HEADS["csv"] + "0,1,1\n1,x,1\n", "line 3: input_tokens is 'x', not a number"),
        ("csv", HEADS["csv"] + "0,1,1\n1,2\n", "line 3: output_tokens is '', not a number"),
        ("csv", HEADS["csv"] + "0,-1,1\n", "line 2: input_tokens is '-1', not a count of tokens"),
        ("csv", HEADS["csv"] + "nan,1,1\n", "line 2: time_s is 'nan', not a number"),
        ("csv", HEADS["csv"] + "1e300,1,1\n", "line 2: time_s is '1e300', beyond any time"),
        ("csv", HEADS["csv"] + "0,1e40,1\n", "line 2: input_tokens is '1e40', not a count"),
        ("csv", HEADS["csv"] + '0,1,"' + "9" * 200_000 + '"\n', "line 2: field larger than field limit"),
        ("csv", HEADS["csv"], "no request within 10 s"),
        ("csv", "", "line 1: no column 'time_s'"),
        ("azure", HEADS["azure"] + "yesterday,1,1\n", "line 2: TIMESTAMP is 'yesterday', not a date"),
        ("azure", HEADS["azure"] + "2023-11-16 18:15:46.68,many,1\n", "line 2: ContextTokens is 'many'"),
        ("mooncake", '{"timestamp": 0}\n', "line 1: input_length is missing"),
        ("mooncake", "\n[1]\n", "line 2: not a JSON object: '[1]'"),
        ("mooncake", "[" * 100_000, "line 1: not a JSON object"),
        ("mooncake", '{"timestamp": 0, "input_length": 1, "output_length": true}', "output_length is True"),
        (
            "mooncake",
            '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [-1]}',
            "hash_ids is not a list of whole numbers",
        ),
    ],
)
def test_a_bad_line_is_named_in_one_sentence(kind: str, text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(BadInput) as caught:
        read(path, kind, seconds=10.0)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.code == "TL213"


def test_a_trace_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read the trace"):
        read(tmp_path / "none.csv", "csv")
