"""Backends that are wrong in a worse way: certificates, framings, answers without an end, answers of another model."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.gateway.scripted import CHAT, Behaviour, Conversation, Scripted, Served, gateway_of, in_loop, scripted, whole
from tests.gateway.test_gateway_failover import TEXT, through

from twinlens.errors import BadInput
from twinlens.gateway.backend import Backend
from twinlens.gateway.launching import backends_of
from twinlens.gateway.relay import upstream
from twinlens.gateway.relay.wire import Pool
from twinlens.gateway.settings import BackendSettings, GatewaySettings

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """By name a file of key and certificate, each its own authority."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make certificates")
    folder, made = tmp_path_factory.mktemp("tls"), {}
    for name, days, who in (("good", 2, "IP:127.0.0.1"), ("expired", -1, "IP:127.0.0.1"), ("other", 2, "DNS:x.test")):
        key, asks, signed, more = (folder / f"{name}.{kind}" for kind in ("key", "csr", "crt", "ext"))
        more.write_text(f"subjectAltName={who}\nbasicConstraints=critical,CA:true\n")
        to_sign = ("req", "-new", *_EC, "-subj", "/CN=x", "-keyout", key, "-out", asks)
        sign = ("x509", "-req", "-in", asks, "-signkey", key, "-days", days, "-extfile", more, "-out", signed)
        for words in (to_sign, sign):
            subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
        made[name] = folder / f"{name}.pem"
        made[name].write_bytes(key.read_bytes() + signed.read_bytes())
    return made


@pytest.mark.parametrize(
    ("served_with", "trusts", "sentence"),
    [
        ("good", "", "its certificate is not accepted: self-signed certificate"),
        ("expired", "expired", "its certificate is not accepted: certificate has expired"),
        ("other", "other", "its certificate is not accepted: IP address mismatch, certificate is not valid for '127.0"),
    ],
    ids=("nobody vouches for it", "expired", "of another name"),
)
def test_a_certificate_that_is_wrong_is_said_and_the_other_backend_is_asked(
    certificates: Mapping[str, Path], served_with: str, trusts: str, sentence: str
) -> None:
    async def run() -> None:
        async with scripted(whole, tls_of(certificates, served_with)) as a, scripted(whole) as b:
            wrong = Backend("a", a.url, "m", ca_file=str(certificates.get(trusts, "")))
            async with gateway_of(wrong, Backend("b", b.url, "m")) as served:
                served.app.router._turn = 1
                assert (await served.stream(CHAT))[0] == TEXT
                first, second = served.told[0].attempts
                assert (first.failure, second.failure) == ("connect", "")
                assert first.said.startswith(sentence)
                assert a.asked == []

    in_loop(run())


def tls_of(certificates: Mapping[str, Path], name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates[name])
    return context


def test_a_certificate_of_ones_own_authority_is_trusted_where_its_file_is_named(
    certificates: Mapping[str, Path], tmp_path: Path
) -> None:
    async def run() -> None:
        async with scripted(whole, tls_of(certificates, "good")) as a:
            backend = Backend("a", a.url, "m", ca_file=str(certificates["good"]))
            async with gateway_of(backend) as served:
                assert (await served.stream(CHAT))[0] == TEXT

    in_loop(run())
    (tmp_path / "none.pem").write_text("no certificate")
    for name in ("none.pem", "missing.pem"):
        one = BackendSettings(name="a", url="https://127.0.0.1:9/v1", ca_file=name)
        with pytest.raises(
            BadInput, match=f"backend 'a': no certificates can be read from ca_file '{tmp_path}/{name}'"
        ):
            backends_of(GatewaySettings(backend=(one,)), {}, tmp_path)
    shutil.copy(certificates["good"], tmp_path / "own.pem")
    (there,) = backends_of(GatewaySettings(backend=(one.model_copy(update={"ca_file": "own.pem"}),)), {}, tmp_path)
    assert there.ca_file == str(tmp_path / "own.pem"), "named from the gateway's file, as its runs are"


def test_a_backend_that_does_not_speak_tls_is_said_to_have_no_encrypted_connection() -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def run() -> None:
        plain = await asyncio.start_server(refuses, "127.0.0.1", 0)
        url = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}/v1"
        async with gateway_of(Backend("a", url, "m")) as served:
            status, data = await served.ask(CHAT)
        plain.close()
        assert status == 502
        assert "a: no encrypted connection: WRONG_VERSION_NUMBER" in json.loads(data)["error"]["message"]

    in_loop(run())


async def has_two_framings(to: Conversation) -> None:
    await to.head(more="Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")
    await to.raw(b"0\r\n\r\n")


async def has_a_line_without_an_end(to: Conversation) -> None:
    await to.head()
    for _ in range(40):
        await to.raw(b"data: " + b"x" * 2**16)


async def never_ends_a_line_of_its_head(to: Conversation) -> None:
    await to.raw(b"HTTP/1.1 200 OK\r\nX-More: " + b"x" * 2**20)


@pytest.mark.parametrize(
    ("behaviour", "failure"),
    [(has_two_framings, "broken"), (has_a_line_without_an_end, "malformed"), (never_ends_a_line_of_its_head, "broken")],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_stream_that_no_server_should_send_is_asked_of_the_next_backend(behaviour: Behaviour, failure: str) -> None:
    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        assert (await served.stream(CHAT))[0] == TEXT
        assert served.told[0].attempts[0].failure == failure

    through(behaviour, check)


def in_one_piece(body: bytes, more: str = "") -> Behaviour:
    async def says(to: Conversation) -> None:
        await to.head(kind="application/json", more=more)
        await to.raw(body)

    return says


@pytest.mark.parametrize(
    ("behaviour", "failure", "sentence"),
    [
        (in_one_piece(b"{]"), "malformed", "an event is not JSON"),
        (in_one_piece(b"{}"), "malformed", "nothing in it that was asked for"),
        (in_one_piece(b'{"error": {"message": "out of memory"}}'), "error event", "out of memory"),
        (in_one_piece(b"{}", "Content-Length: 900\r\n"), "broken", ""),
        (in_one_piece(gzip.compress(b" " * 2**20), "Content-Encoding: gzip\r\n"), "malformed", "compressed"),
        (in_one_piece(b" " * 2**17), "malformed", "its answer does not end: over 65536 bytes"),
    ],
    ids=("garbage", "empty", "an error inside", "cut short", "compressed", "without an end"),
)
def test_an_answer_in_one_piece_that_is_none_is_asked_of_the_next_backend(
    behaviour: Behaviour, failure: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "_MOST_WHOLE_BYTES", 2**16)

    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        status, data = await served.ask(CHAT)
        assert (status, json.loads(data)["choices"][0]["message"]["content"]) == (200, TEXT)
        first = served.told[0].attempts[0]
        assert first.failure == failure
        assert sentence in first.said

    through(behaviour, check)


@pytest.mark.parametrize(
    ("said", "is_other"),
    [("m", False), ("org/M", False), ("m-2026-11-28", False), ("another", True)],
)
def test_an_answer_of_another_model_than_was_asked_is_passed_on_and_said(said: str, is_other: bool) -> None:
    async def answers(to: Conversation) -> None:
        await to.head()
        event = {"model": said, "choices": [{"index": 0, "delta": {"content": TEXT}, "finish_reason": "stop"}]}
        await to.raw(b"data: " + json.dumps(event).encode() + b"\n\n")
        await to.usage()
        await to.done()

    async def check(served: Served, a: Scripted, b: Scripted) -> None:
        assert (await served.stream(CHAT))[0] == TEXT
        told = served.told[0]
        assert (told.ending, len(told.attempts)) == ("ok", 1)
        assert told.error == ("the backend says that another answered, and m was asked" if is_other else "")

    through(answers, check)


@pytest.mark.parametrize(
    ("made", "prompt", "kept", "sentence"),
    [
        (1_000_000, 3, (3, None), "the backend counts 1000000 tokens, more than the 8 asked for; not believed"),
        (8, 1_000_000, (None, 8), "the backend counts 1000000 prompt tokens, and its window is 4096; not believed"),
        (-1, 3, (3, None), ""),
    ],
)
def test_counts_that_cannot_be_are_not_believed(
    made: int, prompt: int, kept: tuple[int | None, int | None], sentence: str
) -> None:
    async def counts(to: Conversation) -> None:
        await to.head()
        await to.event(TEXT, "stop")
        await to.usage(made, prompt)
        await to.done()

    async def run() -> None:
        async with scripted(counts) as a, gateway_of(Backend("a", a.url, "m", longest_tokens=4096)) as served:
            before = served.app.router.states["a"].load.token_bytes
            await served.stream(CHAT)
            (told,) = served.told
            assert ((told.input_tokens, told.output_tokens), told.error, told.ending) == (kept, sentence, "ok")
            if prompt > 3:
                assert served.app.router.states["a"].load.token_bytes == before, "nothing was learnt from it"

    in_loop(run())


def test_a_name_that_comes_to_mean_a_link_local_address_is_not_asked() -> None:
    async def run() -> None:
        async def moved(*_: object, **__: object) -> list[tuple[object, ...]]:
            return [(2, 1, 6, "", ("169.254.169.254", 80))]

        asyncio.get_running_loop().getaddrinfo = moved  # type: ignore[method-assign, assignment]
        with pytest.raises(OSError, match=r"models.test is a link-local address, which is not asked"):
            await Pool("http://models.test/v1").post("/models", b"")

    in_loop(run())
