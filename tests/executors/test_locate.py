"""A server found from an address as people write it, and one clear sentence for each that cannot be measured."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from plain_server import Plain, plain, stream
from twinlens.errors import BadInput
from twinlens.network import page
from twinlens.network.locate import locate

HTML = (200, b"<!DOCTYPE html><html><body>Welcome to nginx</body></html>")
NOT_FOUND = (404, {"detail": "Not Found"})


@pytest.fixture(autouse=True)
def _no_key_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def refused(address: str, **options: Any) -> str:
    with pytest.raises(BadInput) as caught:
        locate(address, options)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.code in ("TL207", "TL223")
    return text


@pytest.mark.parametrize(
    "ending", ["", "/", "/v1", "/v1/", "/v1/models", "/v1/chat/completions"], ids=lambda ending: ending or "the port"
)
@pytest.mark.parametrize("protocol", ["http://", ""])
def test_an_address_may_stop_anywhere(protocol: str, ending: str) -> None:
    with plain(Plain()) as server:
        found = locate(protocol + server.url.removeprefix("http://") + ending, {})
        assert found.model == "Qwen/Qwen3-8B"
        assert found.options == {"url": f"{server.url}/v1", "model": "Qwen/Qwen3-8B"}


def test_an_address_of_the_other_endpoint_asks_that_one() -> None:
    with plain(Plain()) as server:
        assert locate(f"{server.url}/v1/completions", {}).options["endpoint"] == "completions"


@pytest.mark.parametrize("answer", [NOT_FOUND, (400, {"message": "no chat_template is set for this model"})])
def test_a_server_that_only_completes_is_asked_to(answer: Any) -> None:
    with plain(Plain(answers={"/v1/chat/completions": answer})) as server:
        assert locate(server.url, {}).options["endpoint"] == "completions"


EMPTY = stream({"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": "stop"}]})
SPOKEN = stream(
    {"choices": [{"index": 0, "text": "Hi"}]}, {"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}
)


def test_a_chat_that_streams_no_token_is_left_for_completions() -> None:
    with plain(Plain(answers={"/v1/chat/completions": EMPTY, "/v1/completions": SPOKEN})) as server:
        assert locate(server.url, {}).options["endpoint"] == "completions"
        assert all(body["stream"] for _, _, _, body in server.asked if body), "asked as it will be measured"


def test_an_answer_that_may_end_at_once_is_asked_for_again_with_a_length() -> None:
    def ends_at_once(body: dict[str, Any]) -> Any:
        return thought if body.get("ignore_eos") else EMPTY

    thought = stream({"choices": [{"delta": {"reasoning_content": "hm"}}]})
    with plain(Plain(answers={"/v1/chat/completions": ends_at_once})) as server:
        assert "endpoint" not in locate(server.url, {}).options


@pytest.mark.parametrize("endpoint", [EMPTY, (200, {"choices": []}), stream({"error": {"message": "no GPU"}})])
def test_a_server_that_streams_no_token_is_refused_before_any_load(endpoint: Any) -> None:
    with plain(Plain(answers=dict.fromkeys(("/v1/chat/completions", "/v1/completions"), endpoint))) as server:
        sentence = refused(server.url)
        asked = {path for method, path, _, _ in server.asked if method == "POST"}
    assert "with a stream of tokens (/chat/completions: the " in sentence
    assert "; /completions: the " in sentence
    assert ("the answer holds no token" in sentence) != ("the server says: no GPU" in sentence)
    assert asked == {"/v1/chat/completions", "/v1/completions"}


def test_an_endpoint_that_the_address_names_is_the_only_one_tried() -> None:
    with plain(Plain(answers={"/v1/chat/completions": EMPTY, "/v1/completions": SPOKEN})) as server:
        assert "(/chat/completions: the answer holds no token)" in refused(f"{server.url}/v1/chat/completions")


def test_the_name_of_the_limit_is_found() -> None:
    wants = (400, {"error": "Unsupported parameter: use 'max_completion_tokens' instead"})
    with plain(Plain(answers={"/v1/chat/completions": wants})) as server:
        sentence = refused(server.url)  # it refuses both here, and was asked for both
        assert "max_completion_tokens" in sentence
        limits = [set(body) & {"max_tokens", "max_completion_tokens"} for _, _, _, body in server.asked if body]
    assert limits == [{"max_tokens"}, {"max_completion_tokens"}]


def test_several_models_are_named_and_one_can_be_chosen() -> None:
    with plain(Plain(models=["a", "b\x1b[31m", "c"])) as server:
        sentence = refused(server.url)
        assert "serves 3 models: a, b\ufffd[31m, c; choose one with --model NAME" in sentence
        assert "--set executor.options.model=NAME" in sentence
        assert locate(server.url, {"model": "c"}).model == "c"


def test_a_model_that_the_server_does_not_list_is_refused_before_any_request() -> None:
    with plain(Plain(models=["a", "b"])) as server:
        sentence = refused(server.url, model="zz")
        assert "does not list a model 'zz'; it lists a, b" in sentence
        assert "twinlens new" in sentence
        assert {method for method, *_ in server.asked} == {"GET"}


def test_no_model_and_no_list_of_them() -> None:
    with plain(Plain(models=[])) as server:
        assert "lists no model" in refused(server.url)
    with plain(Plain(models=NOT_FOUND)) as server:
        assert "has no list of models (HTTP 404" in refused(server.url)
        assert locate(server.url, {"model": "mine"}).options == {"url": f"{server.url}/v1", "model": "mine"}


def test_a_web_page_is_no_api() -> None:
    with plain(Plain(models=HTML)) as server:
        assert "answers with a web page (HTML)" in refused(f"{server.url}/v1")


def test_a_key_is_sent_only_where_one_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    with plain(Plain(key="sk-1")) as server:
        assert "OPENAI_API_KEY" in refused(server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
        found = locate(server.url, {})
        assert found.options["api_key_env"] == "OPENAI_API_KEY"
        assert "sk-1" not in str(found)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-2")
        sentence = refused(server.url)
        assert "refuses the key in OPENAI_API_KEY" in sentence
        assert "sk-2" not in sentence
        monkeypatch.setenv("MY_KEY", "sk-1")
        assert locate(server.url, {"api_key_env": "MY_KEY"}).options["api_key_env"] == "MY_KEY"
    with plain(Plain()) as server:
        assert "api_key_env" not in locate(server.url, {}).options
        assert not any(key for _, _, key, _ in server.asked), "nobody asked for it"
    assert "'NO_SUCH'" in refused("localhost", api_key_env="NO_SUCH")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions"])
def test_a_server_that_hangs_is_given_up_soon(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE_S", 0.2)
    monkeypatch.setattr("twinlens.network.locate.FIRST_ANSWER_S", 0.2)
    with plain(Plain(hangs=(path,))) as server:
        sentence = refused(server.url)
    assert f"does not answer {'GET' if path.endswith('models') else 'POST'} {path} within 0.2 s" in sentence


def test_a_server_that_refuses_the_first_request_is_quoted() -> None:
    with plain(Plain(answers={"/v1/chat/completions": (500, {"error": "out of memory"})})) as server:
        sentence = refused(server.url)
    assert "does not answer a request of 4 tokens to 'Qwen/Qwen3-8B' with a stream of tokens" in sentence
    assert "(/chat/completions: HTTP 500: " in sentence
    assert "out of memory" in sentence


def test_a_server_that_sends_people_elsewhere_is_not_followed() -> None:
    with plain(Plain(models=(308, {"to": "https://example.org/v1/models"}))) as server:
        assert "redirects to https://example.org/v1" in refused(server.url)


def test_nobody_there_and_somebody_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert "no server answers at" in refused(f"127.0.0.1:{port}")
    assert "is not known" in refused("http://nosuch.invalid/v1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: listener.accept()[0].sendall(b"SSH-2.0-OpenSSH_9.6\r\n"), daemon=True).start()
        assert "does not speak HTTP" in refused(f"127.0.0.1:{listener.getsockname()[1]}")
    with plain(Plain()) as server:
        assert "speaks no TLS; write http://" in refused(server.url.replace("http", "https"))


@pytest.mark.parametrize("address", ["", "ftp://x/v1", "http://", "http://:0", "http://[::1", "http://a b/v1", "x:y"])
def test_what_is_no_address(address: str) -> None:
    assert "is no address of a server" in refused(address)


def test_what_is_stored_with_the_run_may_hold_no_secret() -> None:
    assert "OPENAI_API_KEY" in refused("http://me:secret@127.0.0.1/v1")
    assert "secret" not in refused("http://me:secret@127.0.0.1/v1")
