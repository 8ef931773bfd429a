"""Metrics pages of real servers in our columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.measurement.server.page import IterationStats, columns_of, sample_of, wanted_lines
from twinlens.record.samples import SERVER_SCHEMA

PAGES = Path(__file__).parent / "pages"


def page(name: str) -> bytes:
    return (PAGES / name).read_bytes()


def test_a_page_of_vllm_is_read_whole() -> None:
    assert columns_of(page("vllm.txt")) == {
        "running": 8,
        "waiting": 47,
        "kv_use": pytest.approx(0.01564, abs=1e-5),
        "preemptions": 0,
        "prefix_queries": 29172,
        "prefix_hits": 0,
        "prompt_tokens": 29172,
        "generation_tokens": 10134,
        "iterations": 2730,
        "iteration_tokens": 39306,
        "finished": 194,
        "ttft_sum_s": pytest.approx(224.14, abs=0.01),
        "ttft_count": 202,
        "itl_sum_s": pytest.approx(127.19, abs=0.01),
        "itl_count": 9932,
        "queue_sum_s": pytest.approx(182.97, abs=0.01),
        "queue_count": 194,
        "prefill_sum_s": pytest.approx(8.047, abs=0.001),
        "prefill_count": 194,
        "decode_sum_s": pytest.approx(124.37, abs=0.01),
        "decode_count": 194,
        "e2e_sum_s": pytest.approx(320.34, abs=0.01),
        "e2e_count": 194,
    }


def test_a_page_of_sglang_says_what_was_cached_of_all_prompt_tokens() -> None:
    assert columns_of(page("sglang.txt")) == {
        "prompt_tokens": 8128902,
        "prefix_queries": 8128902,
        "prefix_hits": 2688,
        "generation_tokens": 7557572,
        "kv_use": 0.28,
        "running": 162,
        "waiting": 2826,
        "finished": 217,
        "ttft_sum_s": 2.3518979474117756e6,
        "ttft_count": 11008,
        "e2e_sum_s": 3.116093850019932e6,
        "e2e_count": 11228,
    }


def test_a_page_of_tensorrt_llm_counts_blocks_found_out_of_blocks_looked_for() -> None:
    assert columns_of(page("tensorrt_llm.txt")) == {
        "finished": 155,
        "ttft_sum_s": 8.75,
        "ttft_count": 150,
        "running": 3,
        "kv_use": 0.62,
        "prefix_hits": 30,
        "prefix_queries": 100,
    }


def test_a_page_of_llama_cpp_says_less() -> None:
    assert columns_of(page("llamacpp.txt")) == {
        "prompt_tokens": 6886,
        "prefix_queries": 6886,
        "generation_tokens": 3469,
        "kv_use": 0.491063,
        "running": 1,
        "waiting": 0,
    }


def test_a_page_of_tgi_counts_steps_of_both_kinds() -> None:
    assert columns_of(page("tgi.txt")) == {
        "waiting": 2,
        "running": 1,
        "queue_sum_s": 1.2,
        "queue_count": 10,
        "iterations": 510,
        "generation_tokens": 1000,
        "prompt_tokens": 5000,
    }


def test_engines_are_summed_and_their_caches_averaged() -> None:
    two = b"""vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 5.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.6
"""
    assert columns_of(two) == {"running": 8, "kv_use": pytest.approx(0.4)}


def test_ranks_that_repeat_one_engine_count_once_and_ranks_with_data_of_their_own_each() -> None:
    four = b"".join(
        b'sglang:num_running_reqs{dp_rank="%d",tp_rank="%d"} %d\n' % (dp, tp, 10 + dp)
        for dp, tp in ((0, 1), (0, 0), (1, 2), (1, 3))
    )
    assert columns_of(four) == {"running": 21}


def test_what_was_aborted_or_failed_is_no_finished_request() -> None:
    reasons = {"stop": 5, "length": 2, "abort": 3, "error": 1}
    lines = [f'vllm:request_success_total{{finished_reason="{why}"}} {n}.0' for why, n in reasons.items()]
    assert columns_of("\n".join(lines).encode()) == {"finished": 7}


def test_an_old_name_beside_the_new_one_is_not_counted_twice() -> None:
    both = b"vllm:prefix_cache_hits_total 40\nvllm:gpu_prefix_cache_hits_total 40\n"
    assert columns_of(both) == {"prefix_hits": 40}


def test_cached_and_computed_prompt_tokens_of_llama_cpp_are_what_was_looked_up() -> None:
    both = b"llamacpp:prompt_tokens_total 120\nllamacpp:prompt_tokens_cached_total 30\n"
    assert columns_of(both) == {"prompt_tokens": 120, "prefix_queries": 150, "prefix_hits": 30}


def test_a_front_end_that_writes_an_underscore_is_understood() -> None:
    assert columns_of(b'sglang_num_queue_reqs{worker_addr="grpc://127.0.0.1:8001"} 4\n') == {"waiting": 4}


def test_what_is_not_set_yet_is_absent() -> None:
    assert columns_of(b"vllm:num_requests_running NaN\nvllm:generation_tokens_total +Inf\n") == {}


def test_buckets_are_cut_away_before_anything_is_parsed() -> None:
    whole = page("vllm.txt")
    kept = wanted_lines(whole)
    assert b"_bucket" in whole
    assert b"_bucket" not in kept
    assert columns_of(kept) == columns_of(whole)


def test_a_torn_line_is_said_and_not_guessed() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        columns_of(b'vllm:num_requests_running{engine="0" 3.0 garbage')


@given(st.permutations(page("vllm.txt").splitlines()))
def test_the_order_of_lines_says_nothing(lines: list[bytes]) -> None:
    assert columns_of(b"\n".join(lines)) == columns_of(page("vllm.txt"))


@given(st.binary(max_size=200))
def test_rubbish_is_an_empty_page_or_a_value_error(rubbish: bytes) -> None:
    assert columns_of(rubbish) == {}


@given(st.text(max_size=60))
def test_rubbish_behind_a_known_name_is_a_number_or_a_value_error(rubbish: str) -> None:
    try:
        found = columns_of(f"vllm:num_requests_running {rubbish}".encode())
    except ValueError:
        return
    assert set(found) <= {"running"}


def test_steps_of_tensorrt_llm_are_summed_up_as_reading_empties_the_page() -> None:
    stats = IterationStats()
    first = stats.add(json.loads(page("tensorrt_llm.json")))
    assert first == {
        "iteration_tokens": 13,
        "running": 1,
        "waiting": 0,
        "slots": 73,
        "iterations": 2,
        "prefix_hits": 0,
        "prefix_queries": 8,
        "kv_use": pytest.approx(8 / 5358),
    }
    step = {"iter": 7, "numActiveRequests": 4, "inflightBatchingStats": {"numCtxTokens": 100, "numGenRequests": 3}}
    drafts = {"specDecodingStats": {"numDraftTokens": 6, "numAcceptedTokens": 4}, "numCompletedRequests": 1}
    later = stats.add([step | drafts, step | drafts | {"iter": 8}])
    assert later["iteration_tokens"] == 13 + 2 * 103
    assert (later["draft_tokens"], later["accepted_tokens"], later["finished"]) == (12, 8, 2)
    assert (later["iterations"], later["running"], later["slots"]) == (9, 4, 73)
    assert stats.add([]) == later


@pytest.mark.parametrize("said", [{}, "text", [1], None, 3])
def test_json_that_is_no_list_of_steps_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="iteration statistics"):
        IterationStats().add(said)


def test_a_row_has_what_the_page_says_and_none_for_the_rest() -> None:
    row = sample_of(columns_of(page("tgi.txt")), 5, 2).to_row()
    assert list(row) == SERVER_SCHEMA.names
    assert (row["time_ns"], row["round_trip_ns"], row["running"], row["preemptions"]) == (5, 2, 1, None)
