"""Pages asked for before and beside a run end in time whatever a server does, and never cost the run."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from metrics_server import counting, pages

from material import inference, spec_of
from twinlens.errors import BadInput
from twinlens.executors.openai.entry import target_of
from twinlens.measurement.server import page as pages_beside
from twinlens.measurement.server.page import HttpPage
from twinlens.measurement.server.scrape import scraping
from twinlens.network import page as pages_before
from twinlens.network.locate import locate
from twinlens.network.page import PageClient
from twinlens.network.target import Target
from twinlens.record.store import create_run

OK = b"HTTP/1.1 200 OK\r\n"
LIMIT_S = 0.4
Answer = Callable[[socket.socket], None]


def dripping(begin: bytes, more: bytes = b"x") -> Answer:
    """A beginning, and then a byte now and then for ever."""

    def answer(sock: socket.socket) -> None:
        sock.sendall(begin)
        while True:
            sock.sendall(more)
            time.sleep(0.02)

    return answer


def flooding(begin: bytes, more: bytes) -> Answer:
    def answer(sock: socket.socket) -> None:
        sock.sendall(begin)
        while True:
            sock.sendall(more * 4096)

    return answer


ENDLESS = {
    "a byte at a time": dripping(OK + b"content-type: application/json\r\n\r\n"),
    "a head at a time": dripping(OK, b"x-a: b\r\n"),
    "a line of the head that does not end": dripping(OK + b"x-a: "),
    "nothing": lambda sock: time.sleep(5) if sock.recv(1) is None else None,
    "continue and continue": flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "continue, slowly": dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunks without end": flooding(OK + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "a chunk as long as the world": dripping(OK + b"transfer-encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n"),
    "a body without end": flooding(OK + b"\r\n", b"vllm:num_requests_running 1\n"),
}


@contextlib.contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """The origin of a server that answers every connection so."""
    listener = socket.create_server(("127.0.0.1", 0))
    socks: list[socket.socket] = []

    def serve(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock.recv(65536)
            answer(sock)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                socks.append(listener.accept()[0])
                threading.Thread(target=serve, args=(socks[-1],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for sock in socks:
            sock.close()


def saying(head: bytes, body: bytes = b"") -> Answer:
    return lambda sock: sock.sendall(b"%b\r\ncontent-length: %d\r\n\r\n%b" % (head, len(body), body))


def reason(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text())["server_metrics"]["reason"])


@pytest.mark.parametrize("how", ENDLESS)
def test_a_page_that_does_not_end_is_given_up_in_time(how: str) -> None:
    with answering(ENDLESS[how]) as origin:
        client = PageClient("127.0.0.1", int(origin.rpartition(":")[2]))
        begun_s = time.monotonic()
        with pytest.raises((OSError, http.client.HTTPException)):
            client.ask("/metrics", {}, LIMIT_S)
        assert time.monotonic() - begun_s < 20 * LIMIT_S, "the test server would have gone on for ever"


@pytest.mark.parametrize("how", ENDLESS)
def test_metrics_that_do_not_end_cost_no_run(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_beside, "_PATIENCE_S", LIMIT_S)
    spec = spec_of(inference("fake"))
    folder = create_run(tmp_path, spec)
    with answering(ENDLESS[how]) as origin:
        client = SimpleNamespace(endpoint=lambda: SimpleNamespace(target=Target(url=f"{origin}/v1")), origin_ns=0)
        with scraping(client, spec, folder):
            pass
    assert "does not answer" in reason(folder)


@pytest.mark.parametrize("place", ["http://[::1", "http://[x]/y", "/m\xe9", "//", "\x01", "http://a..b/", "/a b\x7f"])
def test_metrics_moved_to_a_broken_address_cost_no_run(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages_beside, "_PATIENCE_S", LIMIT_S)
    spec = spec_of(inference("fake"))
    folder = create_run(tmp_path, spec)
    with answering(saying(b"HTTP/1.1 307 Moved\r\nlocation: " + place.encode("latin-1"))) as origin:
        client = SimpleNamespace(endpoint=lambda: SimpleNamespace(target=Target(url=f"{origin}/v1")), origin_ns=0)
        with scraping(client, spec, folder):
            pass
    assert reason(folder)


@pytest.mark.parametrize("how", ENDLESS)
def test_a_list_of_models_that_does_not_end_is_one_sentence(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_before, "PAGE_S", LIMIT_S)
    with answering(ENDLESS[how]) as origin, pytest.raises(BadInput) as caught:
        locate(origin, {})
    assert caught.value.code == "TL223"


@pytest.mark.parametrize(
    "url", ["http://a..b/v1", f"http://{'a' * 64}.de/v1", "http://.../v1", "http://x/caf\xe9/\u4e2d"]
)
def test_a_name_that_no_host_can_have_is_one_sentence(url: str) -> None:
    with pytest.raises(BadInput, match="is no address of a server"):
        locate(url, {})


@pytest.mark.parametrize(
    ("header", "value"), [("Authorization", "Bearer s3cret"), ("x-api-key", "s3cret"), ("api-key", "s3cret")]
)
def test_a_key_goes_in_the_header_that_the_server_wants_and_to_no_other(header: str, value: str) -> None:
    with pages({"/metrics": counting()}) as own, pages({"/metrics": counting()}) as other:
        target = Target(url=f"{own.origin}/v1", api_key="s3cret", key_header=header)
        assert target.headers()[header] == value
        assert "s3cret" not in repr(target)
        for server in (own, other):
            page = HttpPage(f"{server.origin}/metrics", target)
            page.get()
            page.close()
    assert own.asked[0][1][header.lower()] == value
    assert "s3cret" not in str(other.asked)


@pytest.mark.parametrize("name", ["", "Host", "x y", "a:b", "x\r\ny", "content-length"])
def test_a_key_goes_in_no_header_that_is_none_or_ours(name: str) -> None:
    with pytest.raises(BadInput, match="key_header"):
        target_of("openai-http", {"url": "http://x/v1", "key_header": name})
