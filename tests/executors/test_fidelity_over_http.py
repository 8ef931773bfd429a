"""A server compared over HTTP with a reference: by log probabilities, by answers, or not at all, with the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from logprob_samples import HALF, QUARTER, TABLES, choice

from material import inference, quiet, spec_of
from plain_server import Answer as Sent
from plain_server import Plain, plain, stream
from twinlens.errors import BadInput
from twinlens.executors.openai.entry import target_of
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.record.codec import decode, encode
from twinlens.record.executor.facts import Compared, Facts


def scoring(places: list[Any]) -> Any:
    def said(asked: dict[str, Any]) -> Sent:
        return 200, {"choices": [{**choice(places), "text": " word"}], "usage": {"completion_tokens": 1}}

    return said


def answering(text: str, prompt_tokens: int = 5) -> Any:
    """A server of text that knows nothing of log probabilities."""

    def said(asked: dict[str, Any]) -> Sent:
        usage = {"completion_tokens": asked["max_tokens"], "prompt_tokens": prompt_tokens}
        return 200, {"choices": [{"text": text}], "usage": usage}

    return said


CHAT = stream({"choices": [{"delta": {"content": "x"}, "finish_reason": "length"}]})


def opened(server: Plain, reference: Plain | Path | None, **parts: Any) -> Facts:
    server.answers["/v1/chat/completions"] = CHAT
    where = "" if reference is None else f"{reference.url}/v1" if isinstance(reference, Plain) else str(reference)
    options = {"url": f"{server.url}/v1", "reference": where}
    executor = OpenAIServer()
    try:
        return executor.open(spec_of(inference("openai-http", options=options, **parts)), quiet)
    finally:
        executor.close()


def test_two_servers_that_give_log_probabilities_are_compared_by_them() -> None:
    places = [None, {"1": {"logprob": QUARTER}, "2": {"logprob": HALF}}, TABLES[2]]
    with plain(Plain(answers={"/v1/completions": scoring(places)})) as server, plain(
        Plain(answers={"/v1/completions": scoring(TABLES)}, models=["bf16"])
    ) as reference:  # fmt: skip
        facts = opened(server, reference, fidelity_prompts=3)
    assert facts.compared is not None
    assert facts.compared.how == "log-probabilities"
    assert facts.compared.reference == f"bf16 of {reference.url}/v1"
    assert [(row.tokens, row.agreed) for row in facts.fidelity] == [(2, 1)] * 3
    sent = [body["prompt"] for _, path, _, body in server.asked if path == "/v1/completions"]
    assert sent == [body["prompt"] for _, path, _, body in reference.asked if path == "/v1/completions"]
    assert len(set(sent)) == 3
    assert decode(Facts, json.loads(json.dumps(encode(facts)))) == facts


def generating(first: float, second: float) -> Any:
    """SGLang's /generate: a text of two tokens, the second with these log probabilities of two candidates."""

    def said(asked: dict[str, Any]) -> Sent:
        assert (asked["return_logprob"], asked["logprob_start_len"], asked["top_logprobs_num"]) == (True, 0, 20)
        assert asked["text"]
        meta = {"input_token_logprobs": [[None, 7, None], [first, 1, None]],
                "input_top_logprobs": [None, [[first, 1, None], [second, 2, None]]]}  # fmt: skip
        return 200, {"text": " word", "meta_info": meta}

    return said


def test_servers_that_answer_as_sglang_does_are_compared_by_its_log_probabilities() -> None:
    with plain(Plain(answers={"/generate": generating(QUARTER, HALF)})) as server, plain(
        Plain(answers={"/generate": generating(HALF, QUARTER)})
    ) as reference:  # fmt: skip
        facts = opened(server, reference, fidelity_prompts=2)
    assert facts.compared is not None
    assert facts.compared.how == "log-probabilities"
    assert [(row.tokens, row.agreed) for row in facts.fidelity] == [(1, 0)] * 2
    assert [row.nll_nats for row in facts.fidelity] == pytest.approx([-QUARTER] * 2)


def test_an_answer_of_sglang_without_log_probabilities_falls_back_to_answers_with_the_reason() -> None:
    without = (200, {"text": " word", "meta_info": {"prompt_tokens": 5}})
    with plain(Plain(answers={"/generate": without, "/v1/completions": answering("aabbcc")})) as server, plain(
        Plain(answers={"/v1/completions": answering("aabbxx")})
    ) as reference:  # fmt: skip
        facts = opened(server, reference, fidelity_prompts=2)
    assert facts.compared is not None
    assert facts.compared.how == "answers"
    assert facts.compared.instead == "its answer has no input_token_logprobs and input_top_logprobs"


def test_servers_without_log_probabilities_are_compared_by_their_answers() -> None:
    with plain(Plain(answers={"/v1/completions": answering("aabbcc")})) as server, plain(
        Plain(answers={"/v1/completions": answering("aabbxx")})
    ) as reference:  # fmt: skip
        facts = opened(server, reference, fidelity_prompts=2)
    assert facts.compared is not None
    assert facts.compared.how == "answers"
    assert facts.compared.instead == "its answer has no prompt_logprobs"
    assert [(row.tokens, row.agreed) for row in facts.fidelity] == [(5, 4)] * 2, "six tokens of one letter, by count"


@pytest.mark.parametrize(
    ("completions", "why"),
    [
        ((404, {"detail": "Not Found"}), "refuses the request to /completions"),
        ((200, b"data: {}\n\n"), "no JSON"),
        ((200, {"choices": []}), "no choices"),
        (answering("aabbcc", prompt_tokens=9), "reads a prompt as 9 tokens, and its reference as 5"),
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_compared_says_why_and_is_measured_all_the_same(completions: Any, why: str) -> None:
    with plain(Plain(answers={"/v1/completions": completions})) as server, plain(
        Plain(answers={"/v1/completions": answering("aabbcc")})
    ) as reference:  # fmt: skip
        facts = opened(server, reference)
    assert facts.fidelity == ()
    assert facts.compared is not None
    assert why in facts.compared.reason


def config_of(**more: Any) -> Mapping[str, Any]:
    return {
        "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 2, "vocab_size": 64, "max_position_embeddings": 512, **more,
    }  # fmt: skip


def test_without_anything_to_compare_with_nothing_is_asked_and_the_reason_stands() -> None:
    with plain(Plain()) as server:
        facts = opened(server, None)
        assert not [path for _, path, _, _ in server.asked if path == "/v1/completions"], "no load that nobody wants"
        assert facts.compared is not None
        assert "executor.options.reference" in facts.compared.reason
        none = opened(server, None, fidelity_prompts=0)
    assert none.compared == Compared("none", reason="workload.fidelity_prompts is 0")


def test_a_quantised_folder_is_no_reference(tmp_path: Path) -> None:
    awq = {"quant_method": "awq", "bits": 4}
    (tmp_path / "config.json").write_text(json.dumps(config_of(quantization_config=awq)))
    (tmp_path / "model.safetensors").write_bytes(b"")
    with plain(Plain()) as server:
        facts = opened(server, tmp_path)
    assert facts.compared is not None
    assert "quantised by int4-weight-awq" in facts.compared.reason


def test_a_reference_is_a_folder_or_an_address_without_secrets(tmp_path: Path) -> None:
    at = {"url": "http://127.0.0.1:9/v1"}
    with pytest.raises(BadInput, match=r"neither a folder with a config\.json nor the address") as caught:
        target_of("openai-http", {**at, "reference": str(tmp_path)})
    assert caught.value.code == "TL207"
    with pytest.raises(BadInput, match=r"executor.options.reference may hold no name, password"):
        target_of("openai-http", {**at, "reference": "http://me:secret@127.0.0.1:9/v1"})
    assert target_of("openai-http", {**at, "reference": "http://127.0.0.1:8/v1/"}).reference == "http://127.0.0.1:8/v1"


def test_the_key_of_the_server_is_not_sent_to_its_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret")
    with plain(Plain(key="s3cret", answers={"/v1/completions": answering("aa")})) as server, plain(
        Plain(answers={"/v1/completions": answering("aa")})
    ) as reference:  # fmt: skip
        server.answers["/v1/chat/completions"] = CHAT
        options = {"url": f"{server.url}/v1", "api_key_env": "MY_KEY", "reference": f"{reference.url}/v1"}
        executor = OpenAIServer()
        facts = executor.open(spec_of(inference("openai-http", options=options)), quiet)
        executor.close()
    assert facts.fidelity
    assert {key for _, _, key, _ in reference.asked} == {""}
