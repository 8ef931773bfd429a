"""The HTTP client itself: its options, its key, its limits, its end, its clock, TLS."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hostile_server import (
    END,
    HEAD,
    Asked,
    Behaviour,
    Hostile,
    answer,
    chunk,
    good,
    hostile,
    said,
    usage,
)
from http_play import TOKENS, asks, burst, closing, one_by_one, only, opened, play, rows_of, silently_closing, streamed

from material import inference, quiet, spec_of
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.network import event_loop, wakeup
from twinlens.network.limits import refuse_too_many
from twinlens.network.null_server import null_server
from twinlens.network.wakeup import _Poller
from twinlens.record.arrow import RowWriter, read_rows
from twinlens.record.codec import encode
from twinlens.record.executor.record import FIELDS
from twinlens.record.request import REQUEST_SCHEMA, Request
from twinlens.reporting.wording.finding import sentence_of
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.open_loop import OpenLoop
from twinlens.schedule.request import ScheduledRequest
from twinlens.testing.schedules import TimedRequests, Watched


def test_where_nobody_listens_opening_says_so() -> None:
    with pytest.raises(ExecutorFailed, match="no server answers") as caught, opened("http://127.0.0.1:1/v1"):
        pass
    assert caught.value.code == "TL302"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": ""}, "needs the server"),
        ({"url": "ftp://127.0.0.1"}, "needs the server"),
        ({"url": "127.0.0.1:8000/v1"}, 'says no protocol; write "http://127.0.0.1:8000/v1"'),
        ({"url": "http://127.0.0.1:8000/v1/chat/completions"}, 'write "http://127.0.0.1:8000/v1"'),
        ({"url": "http://127.0.0.1:99999/v1"}, "needs the server"),
        ({"url": "http://me:secret@127.0.0.1/v1"}, "no name, password or query"),
        ({"url": "http://127.0.0.1/v1", "timeout_s": 0}, "timeout_s"),
        ({"url": "http://127.0.0.1/v1", "timeout_s": "5"}, "timeout_s"),
        ({"url": "http://127.0.0.1/v1", "endpoint": "chats"}, "endpoint"),
        ({"url": "http://127.0.0.1/v1", "force_length": "yes"}, "force_length"),
        ({"url": "http://127.0.0.1/v1", "urll": ""}, "no option 'urll'; did you mean 'url'"),
        ({"url": "http://127.0.0.1/v1", "api_key_env": "TWINLENS_NO_SUCH_KEY"}, "is not set"),
        ({"url": "https://127.0.0.1/v1", "ca_file": "/no/such/file"}, "ca_file"),
    ],
)
def test_options_that_cannot_be_are_refused_with_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        OpenAIServer().open(spec_of(inference("openai-http", options=options)), quiet)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-hidden")
    with hostile(good) as server:
        client = OpenAIServer()
        spec = spec_of(inference("openai-http", options={"url": server.url, "api_key_env": "MY_KEY"}))
        facts = client.open(spec, quiet)
        rows: list[Request] = []
        client.play(one_by_one(1), rows.append)
        client.close()
    assert all("Authorization: Bearer sk-hidden" in asked.head for asked in server.asked)
    written = json.dumps([encode(facts), spec.to_dict()]) + repr([rows, vars(client), vars(client.network_client)])
    assert "sk-hidden" not in written


def test_a_server_that_forbids_unknown_fields_is_asked_without_them() -> None:
    def strict(asked: Asked) -> None:
        if "ignore_eos" in asked.body or "stream_options" in asked.body:
            return asked.send(b"HTTP/1.1 422 Unprocessable\r\ncontent-length: 0\r\n\r\n")
        good(asked)

    with hostile(strict) as server:
        client = OpenAIServer()
        facts = client.open(spec_of(inference("openai-http", options={"url": server.url})), quiet)
        rows: list[Request] = []
        client.play(one_by_one(2), rows.append)
        client.close()
    assert only(rows).outcome == "ok"
    assert any("forbids forced lengths" in note for note in map(sentence_of, facts.findings))
    assert set(facts.executor.facts) <= set(FIELDS)


def test_more_connections_than_the_machine_has_are_refused_before() -> None:
    data = inference("openai-http", options={"url": "http://127.0.0.1:1/v1"}, point={"concurrency": 10_000_000})
    data["workload"]["arrival"] = {"kind": "closed"}
    with pytest.raises(BadInput, match="10000000 requests at once") as caught:
        OpenAIServer().open(spec_of(data), quiet)
    assert caught.value.code == "TL214"


def test_fewer_files_than_python_itself_needs_leave_no_connection_and_not_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (16, 16))
    with pytest.raises(BadInput, match=r"1 requests at once .* this machine allows 0 "):
        refuse_too_many(1)


def test_running_out_of_files_ends_the_run_and_loses_no_row() -> None:
    rows: list[Request] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    watched = Watched(burst(60))
    with hostile(lambda asked: asked.wait(2) and None) as server, opened(server.url) as client:
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 20, hard))
        try:
            with pytest.raises(BadInput, match="could open no more connections") as caught:
                client.play(watched, rows.append)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert caught.value.code == "TL214"
    assert {row.outcome for row in rows} == {"failed"}
    assert sorted(row.group for row in rows) == list(range(60)), "sent or not, each is a row"


def test_an_interrupt_makes_rows_of_what_was_running() -> None:
    rows: list[Request] = []
    # All four have reached the server when the signal comes, however long the machine takes over it.
    together = threading.Barrier(4, action=lambda: os.kill(os.getpid(), signal.SIGINT))

    def hold(asked: Any) -> None:
        together.wait(10)
        asked.wait(5)

    with hostile(hold) as server, opened(server.url) as client, pytest.raises(KeyboardInterrupt):
        client.play(burst(4), rows.append)
    assert [(row.outcome, row.error) for row in rows] == [("failed", "the client was interrupted")] * 4


def test_a_full_disk_stops_the_run_with_its_sentence() -> None:
    with hostile(good) as server, opened(server.url) as client:
        rows = RowWriter(Path("/dev/full"), REQUEST_SCHEMA, most=1)
        with pytest.raises(ExecutorFailed, match="disk is full"):
            client.play(burst(4), rows.add)


_KILLED = """
import sys
from pathlib import Path
from material import inference, quiet, spec_of
from test_openai_http import asks
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.record.request import REQUEST_SCHEMA
from twinlens.record.arrow import RowWriter
from twinlens.schedule.open_loop import OpenLoop
client = OpenAIServer()
client.open(spec_of(inference("openai-http", options={"url": sys.argv[1], "probe": False})), quiet)
client.play(OpenLoop(asks(100000, every_ns=2000000)), RowWriter(Path(sys.argv[2]), REQUEST_SCHEMA).add)
"""


def test_a_killed_client_leaves_its_rows(tmp_path: Path) -> None:
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent), *sys.path])
    with hostile(good) as server:
        words = [sys.executable, "-c", _KILLED, server.url, str(tmp_path / "rows")]
        client = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": paths})
        until = time.monotonic() + 20
        while len(server.asked) < 300 and time.monotonic() < until:
            time.sleep(0.02)
        client.kill()
        client.wait()
    table = read_rows(tmp_path / "rows", REQUEST_SCHEMA)
    assert table.num_rows >= 50
    assert set(table.column("outcome").to_pylist()) == {"ok"}


def test_errors_never_make_an_answer_look_quicker() -> None:
    def one_in_two(asked: Asked) -> None:
        if asked.number % 2:
            return asked.send(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n")
        asked.wait(0.02)
        good(asked)

    rows = rows_of(one_in_two, OpenLoop(asks(30, every_ns=3_000_000)))
    assert sum(row.outcome == "ok" for row in rows) == 15
    assert all(row.chunk_ns[0] - row.sent_ns >= 0.02e9 for row in rows if row.outcome == "ok")
    assert all(not row.chunk_ns and row.output_tokens == 0 for row in rows if row.outcome != "ok")


def test_whatever_the_mixture_every_ask_is_one_row() -> None:
    chance = random.Random(4)
    behaviours: list[Behaviour] = [
        good, closing, silently_closing, Asked.reset, Asked.close, streamed(b"data: {\n\n"),
        lambda asked: asked.send(HEAD, chunk(said(content="x"))) or asked.reset(),
        lambda asked: asked.send(b"HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n"),
        lambda asked: asked.send(b"\x00" * 50) or asked.close(),
    ]  # fmt: skip
    choice = [chance.randrange(len(behaviours)) for _ in range(1000)]
    rows = rows_of(lambda asked: behaviours[choice[asked.number]](asked), OpenLoop(asks(150, every_ns=1_000_000)))
    assert len(rows) == 150
    assert {row.outcome for row in rows} == {"ok", "failed", "refused"}


def test_time_goes_on_when_it_plays_again_and_nothing_is_sent_early() -> None:
    with hostile(good) as server, opened(server.url) as client:
        rows: list[Request] = []
        client.play(TimedRequests([0, 30_000_000], 5, TOKENS), rows.append)
        first = max(row.end_ns for row in rows)
        client.play(OpenLoop(asks(5, every_ns=20_000_000)), rows.append)
    assert all(row.sent_ns >= row.intended_ns for row in rows)
    assert min(row.sent_ns for row in rows[2:]) > first


def test_a_late_client_is_seen_in_its_lag_and_in_merged_reads() -> None:
    all_sent = threading.Event()

    def paced(asked: Asked) -> None:
        asked.send(HEAD)
        for _ in range(asked.tokens):
            asked.send(chunk(said(content="x")))
            asked.wait(0.01)
        asked.send(chunk(usage(asked.tokens)), END)
        if asked.tokens == 20:
            all_sent.set()

    rows: list[Request] = []

    def take(row: Request) -> None:
        if not rows:  # the client is busy with something else until all has come, and a little longer
            all_sent.wait(10)
            time.sleep(0.005)
        rows.append(row)

    plan = [ScheduledRequest(0, 0, 0, 5, 2, (3, 0, 0)), ScheduledRequest(1, 1, 0, 5, 20, (3, 0, 1))]
    with hostile(paced) as server, opened(server.url) as client:
        client.play(OpenLoop(plan), take)
        record = client.client()
    late = rows[1]
    assert late.outcome == "ok"
    assert late.merged_reads
    assert record.merged_reads >= late.merged_reads
    if record.stamps == "kernel":
        assert late.lag_ns is not None
        # The first of the segments that one read took lay there longest, but the stamp is the last one's.
        assert late.lag_ns > 1_000_000
    assert json.loads(json.dumps(encode(record)))["lag_max_ns"] >= (late.lag_ns or 0)


@pytest.mark.parametrize("stamps", [True, False])
def test_a_system_without_epoll_timers_and_stamps_is_served_too(stamps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeup, "_c_library", lambda: None)
    monkeypatch.setattr(event_loop, "poller", _Poller)
    with hostile(closing) as server, opened(server.url, kernel_stamps=stamps, timeout_s=3.0) as client:
        rows: list[Request] = []
        client.play(OpenLoop(asks(20, every_ns=3_000_000)), rows.append)
        assert client.client().stamps == ("kernel" if stamps and sys.platform == "linux" else "client")
    assert only(rows).outcome == "ok"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(words, check=True, capture_output=True)
    return key, cert


def served_by_tls(certificate: tuple[Path, Path], behave: Behaviour) -> contextlib.AbstractContextManager[Hostile]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    return hostile(behave, tls=context)


def test_tls_is_spoken_with_the_ciphertext_stamped(certificate: tuple[Path, Path]) -> None:
    with served_by_tls(certificate, good) as server, opened(server.url, ca_file=str(certificate[1])) as client:
        rows: list[Request] = []
        client.play(ClosedLoop(3, asks(12)), rows.append)
        assert client.client().stamps == ("kernel" if sys.platform == "linux" else "client")
    assert only(rows).chunk_tokens == (1,) * TOKENS
    assert len({asked.sock for asked in server.asked}) <= 3, "and connections are used again"


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(certificate: tuple[Path, Path]) -> None:
    with served_by_tls(certificate, good) as server:
        row = only(play(server.url, one_by_one(1)))
    assert row.outcome == "failed"
    assert "certificate" in (row.error or "").lower()


def test_a_refused_connection_is_a_refused_row() -> None:
    with hostile(good) as server, opened(server.url) as client:
        listener = socket.create_server(("127.0.0.1", 0))
        free = listener.getsockname()[1]
        listener.close()
        address = client._loop._pool._address  # type: ignore[union-attr]
        client._loop._pool._address = type(address)(address.family, ("127.0.0.1", free), address.host)  # type: ignore[union-attr]
        rows: list[Request] = []
        client.play(one_by_one(3), rows.append)
    assert only(rows).error == "cannot connect: Connection refused"
    assert rows[0].outcome == "refused"


def test_the_null_server_knows_when_each_token_left_and_the_client_says_the_same() -> None:
    with null_server(ttft_s=0.02, itl_s=0.005, life_s=30) as server:
        rows = play(server.url, ClosedLoop(2, asks(8)))
        truth = server.truth()
    assert only(rows).outcome == "ok"
    assert len(truth) == 8
    true = sorted(sent.token_ns[0] - sent.request_ns for sent in truth)
    assert true[0] >= 20_000_000
    said_ns = sorted(row.chunk_ns[0] - row.sent_ns for row in rows)
    assert all(ours >= theirs for ours, theirs in zip(said_ns, true, strict=True)), "a client cannot be early"
    least_ns = [20_000_000 + 5_000_000 * (len(sent.token_ns) - 1) for sent in truth]
    took_ns = [sent.token_ns[-1] - sent.request_ns for sent in truth]
    assert all(took >= least for took, least in zip(took_ns, least_ns, strict=True)), "a server sends nothing early"


def test_the_null_server_is_gone_when_the_block_ends() -> None:
    with null_server(life_s=30) as server:
        process = server._process
        assert process.is_alive()
    assert not process.is_alive()


def test_a_conversation_carries_what_was_really_said() -> None:
    def numbered(asked: Asked) -> None:
        asked.send(answer(asked.tokens, f" a{asked.number}"))

    turns = [
        ScheduledRequest(0, 0, 0, 4, 2, (3, 1, 0), session=0, turn=0, history=(4,)),
        ScheduledRequest(1, 1, 0, 10, 2, (3, 1, 0), session=0, turn=1, history=(4, 2, 4)),
    ]
    with hostile(numbered) as server:
        play(server.url, ClosedLoop(1, turns))
    second = server.asked[1].body["messages"]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[1]["content"] == " a0 a0"


def test_a_client_that_is_far_behind_its_plan_stops_sending_and_says_so() -> None:
    """A load that takes a hundred times as long as it was planned for is another load."""
    rows, clock, now = list[Request](), [0], time.monotonic_ns
    with hostile(good) as server, opened(server.url) as client, pytest.MonkeyPatch.context() as patched:
        loop = client._loop
        assert loop is not None
        start = loop.start

        def slow(key: int, *rest: Any) -> int:
            clock[0] += 20_000_000_000 if key == 10 else 0  # something took the processor for 20 s
            return start(key, *rest)

        patched.setattr(loop, "start", slow)
        patched.setattr(time, "monotonic_ns", lambda: now() + clock[0])
        client.play(burst(40), rows.append)
    unsent = [row.group for row in rows if row.error == "the client was over 10 s late: it was never sent"]
    assert sorted(row.group for row in rows) == list(range(40))
    assert sorted(unsent) == list(range(10, 40))
    assert {row.outcome for row in rows if row.group in unsent} == {"failed"}
