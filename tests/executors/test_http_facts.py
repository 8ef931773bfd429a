"""What an attached server says of itself, in whatever form its pages have."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from material import inference, quiet, spec_of
from plain_server import Plain, plain
from twinlens.errors import ExecutorFailed
from twinlens.executors.openai.entry import target_of
from twinlens.executors.openai.executor import OpenAIServer, facts_of
from twinlens.network.discovery import Discovery, first_tries
from twinlens.network.target import Address
from twinlens.record.executor.record import ExecutorRecord
from twinlens.schedule.prompt import SyntheticWords
from twinlens.spec.workload.prompt import Generate

URL = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("info", "speculative"),
    [
        ({"vllm_config": "model='/models/small', speculative_config=None, dtype=torch.bfloat16"}, None),
        ({"vllm_config": {"speculative_config": None}}, "none"),
        ({"vllm_config": {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}}},
         {"method": "ngram", "num_speculative_tokens": 4}),
        ("not an object", None),
    ],
)  # fmt: skip
def test_a_server_info_in_any_form_is_read_or_left_out(info: Any, speculative: Any) -> None:
    assert _facts_of(info).value("serving.speculative") == speculative


def test_formats_and_limits_of_a_server_are_those_that_its_launcher_would_record() -> None:
    model = {"dtype": "torch.float32", "max_model_len": 1024}
    config = {"model_config": model, "cache_config": {"cache_dtype": "auto", "block_size": 128},
              "scheduler_config": {"max_num_seqs": 4}}  # fmt: skip
    found = _facts_of({"vllm_config": config})
    kept = {"precision.weights": "fp32", "precision.kv": "fp32", "serving.max_sequences": 4,
            "serving.kv_block_tokens": 128, "serving.context_tokens": 1024}  # fmt: skip
    assert {name: found.value(name) for name in kept} == kept


def test_vllm_is_asked_for_its_settings_as_json() -> None:
    with plain(Plain()) as server, contextlib.suppress(ExecutorFailed):
        OpenAIServer().open(spec_of(inference("openai-http", options={"url": f"{server.url}/v1"})), quiet)
    assert "/server_info?config_format=json" in [path for _, path, _, _ in server.asked]


def _facts_of(info: Any) -> ExecutorRecord:
    spec = spec_of(inference("openai-http", options={"url": URL}, arrival={"kind": "poisson"}, point={"rate_per_s": 1}))
    target = target_of("openai-http", {"url": URL})
    requests = first_tries(target, SyntheticWords(), "small", Generate())[0]
    discovery = Discovery(Address("127.0.0.1", 9, ()), "small", requests, {"/server_info": info})
    return facts_of(target, discovery, spec).executor


def test_a_server_that_hangs_is_given_up_at_its_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlens.network.discovery._PATIENCE_S", 0.3)
    with plain(Plain(hangs=("/v1/models",))) as server, pytest.raises(ExecutorFailed, match="hangs, or is still"):
        OpenAIServer().open(spec_of(inference("openai-http", options={"url": f"{server.url}/v1"})), quiet)
    assert [path for _, path, _, _ in server.asked] == ["/v1/models"]


def test_the_first_answer_may_take_a_minute_unless_the_spec_says_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlens.network.discovery._FIRST_ANSWER_S", 0.2)
    with plain(Plain(hangs=("/v1/chat/completions",))) as server:
        options = {"url": f"{server.url}/v1"}
        with pytest.raises(ExecutorFailed, match="does not answer a short request"):
            OpenAIServer().open(spec_of(inference("openai-http", options=options)), quiet)
