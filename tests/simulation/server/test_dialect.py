"""The OpenAI dialect of a simulated server, as a stock client meets it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from simulated_server import MESSAGES, ask, get, simulated

from twinlens.simulation.law import one
from twinlens.simulation.rules import Rules
from twinlens.simulation.server.tokens import answer_words, natural_length, plain_count


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with simulated(rules=Rules(max_model_len=100, enable_prefix_caching=True)) as address:
        yield address


def test_a_stream_opens_with_the_role_brings_a_word_a_token_and_ends_with_its_usage(url: str) -> None:
    reply = ask(url, messages=MESSAGES, max_tokens=5, stream=True, stream_options={"include_usage": True})
    opening, *words, usage = reply.events
    assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [event["choices"][0]["finish_reason"] for event in words] == [None] * 4 + ["length"]
    assert len("".join(event["choices"][0]["delta"]["content"] for event in words).split()) == 5
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 6, "completion_tokens": 5, "total_tokens": 11}
    assert reply.headers["content-type"].startswith("text/event-stream")


def test_usage_is_not_streamed_unasked(url: str) -> None:
    assert all("usage" not in event for event in ask(url, messages=MESSAGES, max_tokens=2, stream=True).events)


def test_an_answer_in_one_piece_is_the_stream_in_one_piece(url: str) -> None:
    streamed = ask(url, messages=MESSAGES, max_tokens=7, stream=True).events
    whole = ask(url, messages=MESSAGES, max_completion_tokens=7).data
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"] == {
        "role": "assistant",
        "content": "".join(event["choices"][0]["delta"]["content"] for event in streamed),
    }
    assert whole["usage"]["completion_tokens"] == 7


@pytest.mark.parametrize(
    ("prompt", "tokens"), [("one, two", 3), ([5, 6, 7], 3), (["a b"], 2), ([[9, 9]], 2), ("x" * 25, 3), ("é?", 2)]
)
def test_a_completion_takes_text_or_ids(url: str, prompt: Any, tokens: int) -> None:
    answer = ask(url, prompt=prompt, max_tokens=3).data
    assert answer["object"] == "text_completion"
    assert len(answer["choices"][0]["text"].split()) == 3
    assert answer["usage"]["prompt_tokens"] == tokens


def test_the_same_prompt_and_seed_say_the_same_words_and_others_say_others(url: str) -> None:
    said = [ask(url, prompt=prompt, seed=seed, max_tokens=12).data["choices"][0]["text"]
            for prompt, seed in (("a", 1), ("a", 1), ("a", 2), ("b", 1))]  # fmt: skip
    assert said[0] == said[1]
    assert len(set(said)) == 3


def test_every_answer_says_that_it_is_simulated(url: str) -> None:
    replies = [
        ask(url, messages=MESSAGES, max_tokens=1, stream=True),
        ask(url, messages=MESSAGES, max_tokens=1),
        ask(url, prompt=7),
        *(get(url + path) for path in ("/models", "/nowhere")),
        *(get(url.removesuffix("/v1") + path) for path in ("/health", "/metrics", "/version", "/server_info")),
    ]
    assert {reply.headers["x-twinlens-simulated"] for reply in replies} == {"quoted; speed=1"}
    assert replies[0].events[0]["system_fingerprint"] == "twinlens-simulated"
    assert replies[1].data["system_fingerprint"] == "twinlens-simulated"
    (model,) = get(url + "/models").data["data"]
    assert (model["owned_by"], model["max_model_len"]) == ("twinlens-simulated", 100)
    assert (model["simulated"]["origin"], model["simulated"]["law"]["speed"]) == ("quoted", 1.0)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "user", "content": 7}]}, 400, "content"),
        ({"prompt": [1, "a"]}, 400, "prompt"),
        ({"prompt": ["a", "b"]}, 400, "prompt"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens"),
        ({"prompt": "a", "max_tokens": True}, 400, "max_tokens"),
        ({"prompt": "a", "max_tokens": 2, "min_tokens": 3}, 400, "min_tokens"),
        ({"prompt": "a", "max_tokens": 100}, 400, "maximum context length is 100"),
        ({"prompt": "a " * 100}, 400, "maximum context length is 100"),
        ({"prompt": "a", "n": 2}, 400, "one answer"),
        ({"prompt": "a", "logprobs": 5}, 400, "no log probabilities"),
        ({"messages": MESSAGES, "logprobs": True}, 400, "no log probabilities"),
        ({"prompt": "a", "model": "gpt"}, 404, "gpt"),
        ({"prompt": "a", "seed": "x"}, 400, "seed"),
    ],
)
def test_what_it_cannot_do_is_refused_in_the_shape_of_the_api(
    url: str, body: dict[str, Any], status: int, says: str
) -> None:
    reply = ask(url, **body)
    assert reply.status == status
    assert says in reply.data["error"]["message"]
    assert reply.data["error"]["code"] == status


@pytest.mark.parametrize("body", [b"{", b"[]", b"7", b"\xff"])
def test_a_body_that_is_no_object_is_refused(url: str, body: bytes) -> None:
    assert get(url + "/chat/completions", body).status == 400


def test_the_metrics_have_the_names_of_vllm_and_a_label_that_none_is_measured() -> None:
    with simulated(rules=Rules(num_gpu_blocks=64, enable_prefix_caching=True)) as url:
        shared = [{"role": "system", "content": "word " * 40}, *MESSAGES]
        for _ in range(2):
            ask(url, messages=shared, max_tokens=5)
        page = get(url.removesuffix("/v1") + "/metrics").body.decode()
    values = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            assert sample.labels["simulated"] == "speed 1"
            values[sample.name] = sample.value
    assert values["vllm:prompt_tokens_total"] == 2 * 46
    assert values["vllm:generation_tokens_total"] == 10
    assert values["vllm:request_success_total"] == 2
    assert values["vllm:prefix_cache_queries_total"] == 92
    assert values["vllm:prefix_cache_hits_total"] == 32, "two blocks of 16 of the 40 tokens that are shared"
    assert values["vllm:time_to_first_token_seconds_count"] == 2
    assert values["vllm:inter_token_latency_seconds_count"] == 8
    assert values["vllm:e2e_request_latency_seconds_count"] == values["vllm:request_decode_time_seconds_count"] == 2
    assert values["vllm:num_requests_running"] == values["vllm:num_requests_waiting"] == 0
    assert values["twinlens_write_lag_seconds_count"] == 10


def test_answers_end_by_themselves_around_their_mean_and_not_where_that_is_forbidden() -> None:
    lengths = [natural_length(seed * 0x9E3779B97F4A7C15 % 2**64, 20) for seed in range(4000)]
    assert abs(sum(lengths) / 4000 - 20) < 1.5, "geometric: five standard errors are 1.5"
    assert min(lengths) == 1
    with simulated(answer_tokens=3.0) as url:
        free = [ask(url, prompt=f"p {i}", max_tokens=50).data for i in range(8)]
        assert {each["choices"][0]["finish_reason"] for each in free} == {"stop"}
        assert len({each["usage"]["completion_tokens"] for each in free}) > 1
        forced = ask(url, prompt="p 0", max_tokens=50, ignore_eos=True).data
        assert forced["usage"]["completion_tokens"] == 50
        least = ask(url, prompt="p 0", max_tokens=50, min_tokens=30).data
        assert least["usage"]["completion_tokens"] >= 30


def test_a_longer_answer_begins_with_the_shorter_one() -> None:
    assert answer_words(3, 20)[:5] == answer_words(3, 5)


def test_an_answer_of_any_length_costs_a_bounded_memory_and_has_all_its_words() -> None:
    assert len(answer_words(3, 10**9)) == 4096
    with simulated(one(1e-6), Rules(max_num_batched_tokens=8192)) as url:
        text = ask(url, prompt="a", max_tokens=5000).data["choices"][0]["text"]
    words = text.split(" ")
    assert len(words) == 5000
    assert words[4096:] == words[: 5000 - 4096]


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a b", 2), ("don't", 3), ("abcdefghijklm", 2), ("日本 x", 3)])
def test_tokens_are_counted_by_the_rule_that_the_page_states(text: str, tokens: int) -> None:
    assert plain_count(text) == tokens
