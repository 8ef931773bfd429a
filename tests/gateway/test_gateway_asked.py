"""Requests that no backend sees: each is refused with one clear sentence in OpenAI's shape."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.scripted import CHAT, gateway_of, in_loop, scripted, whole

from twinlens.errors import BadInput
from twinlens.gateway.asked import FORBIDDEN, read
from twinlens.gateway.backend import Backend, backend_of
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.settings import (
    AliasSettings,
    BackendSettings,
    GatewaySettings,
    Hedging,
    KeySettings,
    money_of,
    read_settings,
)

BAD: list[tuple[bytes, str]] = [
    (b"", "the body is no JSON"),
    (b"{", "the body is no JSON"),
    (b"[]", "the body is a JSON object"),
    (b"\xff\xfe{}", "the body is no JSON"),
    (b'{"model": 1, "messages": []}', "model is a text"),
    (b'{"messages": []}', "messages is a list of at least one message"),
    (b'{"messages": ["x"]}', "each message is an object with a role"),
    (b'{"messages": [{"role": "user", "content": 5}]}', "the content of a message is text"),
    (b'{"messages": [{"role": "user", "content": "x"}], "stream": 1}', "stream is true or false"),
    (b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}', "a whole number of at least 1"),
    (b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1.5}', "a whole number of at least 1"),
    (b'{"messages": [{"role": "user", "content": "x"}], "n": 1000}', "n is a whole number from 1 to 128"),
    (b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}', "NaN is no number of JSON"),
    (b'{"model": "a", "model": "b"}', "a field stands twice"),
    (b'{"stream_options": 3, "messages": [{"role": "user", "content": "x"}]}', "stream_options is an object"),
    (b'{"a":' * 5000 + b"1" + b"}" * 5000, "the body is no JSON"),
]
ONE = '[[backend]]\nname = "a"\nurl = "http://x"\n'


@pytest.mark.parametrize(("raw", "sentence"), BAD, ids=range(len(BAD)))
def test_a_body_that_no_server_could_answer_is_refused_in_words(raw: bytes, sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        read("chat", raw)
    assert refused.value.status == 400
    assert sentence in refused.value.sentence
    assert set(refused.value.body()["error"]) == {"message", "type", "param", "code"}  # type: ignore[call-overload]


@pytest.mark.parametrize("field", FORBIDDEN)
def test_a_client_does_not_say_where_its_request_goes(field: str) -> None:
    body = {**CHAT, field: "http://169.254.169.254/latest/meta-data"}
    with pytest.raises(Refusal, match=f"{field} is not taken from a request"):
        read("chat", json.dumps(body).encode())


def test_what_is_not_known_here_goes_on_to_the_backend_as_it_came() -> None:
    async def run() -> None:
        async with scripted(whole) as a, gateway_of(Backend("a", a.url, "theirs")) as served:
            more = {"top_k": 5, "messages": [{"role": "user", "content": "{{7*7}} ${x} {% raw %}"}]}
            status, _ = await served.ask({**CHAT, "model": "a", **more})
            assert status == 200
            assert a.asked == [{**CHAT, **more, "model": "theirs"}]

    in_loop(run())


def test_a_request_larger_than_it_may_be_is_refused_and_is_a_row() -> None:
    async def run() -> None:
        async with scripted(whole) as a, gateway_of(Backend("a", a.url), most_body_bytes=1000) as served:
            status, data = await served.ask({**CHAT, "user": "x" * 2000})
            assert (status, json.loads(data)["error"]["message"]) == (413, "the request has more than 1000 bytes")
            assert [each.ending for each in served.told] == ["refused"]
            assert a.asked == []

    in_loop(run())


def test_a_request_with_two_lengths_is_refused() -> None:
    async def run() -> None:
        async with scripted(whole) as a, gateway_of(Backend("a", a.url)) as served:
            host, port = served.url.removeprefix("http://").removesuffix("/v1").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n")  # fmt: skip
            assert b" 400 " in await reader.readline()
            writer.close()
            assert a.asked == []

    in_loop(run())


def test_another_page_is_an_error_in_the_same_shape() -> None:
    async def run() -> None:
        async with scripted(whole) as a, gateway_of(Backend("a", a.url)) as served:
            status, data = await served.ask({}, "/responses")
            assert status == 404
            assert "POST /v1/responses: not found" in json.loads(data)["error"]["message"]

    in_loop(run())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "field 'backend' is missing"),
        ('[[backend]]\nname = "a"\nurls = "x"', "did you mean 'url'"),
        ('[[backend]]\nname = "a"', "neither url nor launch"),
        ('[[backend]]\nname = "a"\nurl = "http://x"\n[[backend]]\nname = "a"\nurl = "http://y"', "two backends"),
        ('host = "0.0.0.0"\n[[backend]]\nname = "a"\nurl = "http://x"', "no key is asked for"),
        ('policy = "cheapest"\n[[backend]]\nname = "a"\nurl = "http://x"', "policy"),
        (f'{ONE}price_per_million = "1 USD"\n[[key]]\nname = "k"\nhash = "x"\nmoney_per_day = "1 EUR"', "one currency"),
        (f'{ONE}price_per_hour = "1 USD"\nprice_per_million = "1 EUR"', "is in EUR, and backend 'a' in USD"),
        (f'{ONE}price_per_million_input = "1 USD"', "write price_per_million too"),
        ('[[alias]]\nname = "auto"\nbackends = ["aa"]\n[[backend]]\nname = "a"\nurl = "http://x"', "did you mean 'a'"),
    ],
)
def test_settings_that_cannot_be_are_one_sentence(text: str, sentence: str, tmp_path: Any) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    with pytest.raises(BadInput) as wrong:
        read_settings(path)
    assert sentence in str(wrong.value)
    assert "gateway.toml" in str(wrong.value)


@pytest.mark.parametrize("url", ["http://169.254.169.254/v1", "http://[fe80::1]/v1", "ftp://x", "http://user:key@x/v1"])
def test_no_backend_is_a_place_where_clouds_keep_their_keys(url: str) -> None:
    with pytest.raises(BadInput, match="backend 'a'"):
        backend_of(BackendSettings(name="a", url=url))


def test_a_backend_without_its_key_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = BackendSettings(name="a", url="http://127.0.0.1:9/v1", key_env="UPSTREAM_KEY")
    with pytest.raises(BadInput, match="the environment has no UPSTREAM_KEY"):
        backend_of(settings)
    monkeypatch.setenv("UPSTREAM_KEY", "secret")
    backend = backend_of(settings)
    assert backend.key == "secret"
    assert "secret" not in repr(backend)


@pytest.mark.parametrize("text", ["5", "five USD", "-1 USD", "5 usd", "NaN USD", "5 USDT"])
def test_money_is_an_amount_and_its_currency(text: str) -> None:
    with pytest.raises(BadInput, match="no amount of money"):
        money_of(text)


def test_the_guide_has_every_field_in_the_words_of_the_settings() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
    for model in (GatewaySettings, BackendSettings, AliasSettings, KeySettings, Hedging):
        for name, field in model.model_fields.items():
            if name not in ("backend", "alias", "key", "hedging"):
                assert f"| `{name}` | {field.description} |" in guide
