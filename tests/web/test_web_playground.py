"""Chat from the page: text as text, times as they come, one request's figures, and a run that nothing ranks."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.web.asking import Site, site_at

import twinlens as tl
from plain_server import Plain, plain, stream
from served_material import served_run
from twinlens.errors import BadInput
from twinlens.web.playground.beside import INTERACTIVE, measured_of
from twinlens.web.playground.figures import cost, figures, shown, tpot_s
from twinlens.web.playground.keeping import saved, spec_text
from twinlens.web.playground.serve import servable, serve
from twinlens.web.playground.talk import kept, note_of, short_name
from twinlens.web.playground.upstream import Exchange
from twinlens.web.playground.wanted import wanted_of
from twinlens.web.work.job import WHERE

ENEMY = "<img src=x onerror=alert(1)>\x1b[2J\u202eevil"
METRICS = b"# HELP x y\nvllm:gpu_cache_usage_perc 0.25\nvllm:num_requests_running 1.0\nvllm:num_requests_waiting 3.0\n"


def _word(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}]}


ANSWER = stream(
    *(_word(text) for text in ("Hello", " ", ENEMY)),
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def site(served, out: Path) -> Iterator[Site]:  # type: ignore[no-untyped-def]
    with served(out) as url:
        yield site_at(url)


def question(url: str, **more: Any) -> dict[str, Any]:
    return {"url": url, "messages": [{"role": "user", "content": "Say hello"}], **more}


def events_of(site: Site, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """All events of one question."""
    status, _, body = site.send("/chat/ask", asked)
    assert status == 200, body
    return [json.loads(each.removeprefix("data: ")) for each in body.split("\n\n") if each.startswith("data: ")]


def test_an_answer_comes_as_text_with_a_mark_for_each_token_and_one_requests_figures(site: Site) -> None:
    with plain(Plain(answers={"/v1/chat/completions": ANSWER})) as server:
        found = events_of(site, question(server.url, price_in="1", price_out="10", seed="3"))
    assert found[0] == {"kind": "begin", "model": "Qwen/Qwen3-8B", "url": f"{server.url}/v1", "note": ""}
    texts = [each for each in found if each["kind"] == "text"]
    assert "".join(each["text"] for each in texts) == "Hello <img src=x onerror=alert(1)>␛[2J⟨U+202E⟩evil"
    marks = [mark for each in texts for mark in each["marks_ms"]]
    assert len(marks) == 3
    assert marks == sorted(marks)
    end = found[-1]
    assert (end["kind"], end["error"], end["finish"]) == ("end", "", "stop")
    rows = {row["id"]: row for row in end["rows"]}
    assert (rows["tokens"]["value"], rows["tokens"]["n"]) == ("3", 1)
    assert rows["ttft"]["n"] == 1
    assert rows["cost"]["value"] == "0.000037"  # 7 × 1 + 3 × 10 per million
    assert rows["energy"]["value"] or rows["energy"]["why"]
    sent = [body for method, path, _, body in server.asked if path == "/v1/chat/completions"]
    assert (sent[0]["seed"], sent[0]["temperature"], sent[0]["stream"]) == (3, 0.0, True)


def test_a_talk_is_saved_as_a_run_that_is_never_compared(site: Site, out: Path) -> None:
    with plain(Plain(answers={"/v1/chat/completions": ANSWER})) as server:
        names = events_of(site, question(server.url))[-1]["kept"]
        names += events_of(site, question(server.url))[-1]["kept"]
    status, _, body = site.send("/chat/save", {"kept": names})
    assert status == 200, body
    told = json.loads(body)
    assert told["address"] == f"/runs/{told['run']}"
    run = tl.read(out / told["run"])[0]
    summary = tl.summary(run)
    assert (len(run.requests), run.is_finished, run.place) == (2, True, "elsewhere")
    assert list(run.requests.output_tokens) == [3, 3]
    assert (summary.validity, summary.ranked) == ("not valid", False)
    assert INTERACTIVE in [each.code for each in summary.disqualified]
    assert "Somebody talked with the server" in tl.show(out / told["run"])
    other = json.loads(site.send("/chat/save", {"kept": names})[2])["run"]
    assert [each.verdict for each in tl.compare(out / told["run"], out / other)] == ["not comparable"]
    assert measured_of([out], f"{server.url}/v1") == {}, "a talk is no measured run of its server"
    _, _, body = site.send("/chat/save", {"kept": names, "as": "spec"})
    study = tl.parse(json.loads(json.dumps(_toml(json.loads(body)["spec"]))))
    assert study.executor.options["url"] == f"{server.url}/v1"


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def test_a_key_is_sent_to_its_server_and_stands_nowhere(site: Site, out: Path) -> None:
    with plain(Plain(answers={"/v1/chat/completions": ANSWER}, key="s3cret-key")) as server:
        found = events_of(site, question(server.url, key="s3cret-key"))
        assert found[-1]["error"] == ""
        run = json.loads(site.send("/chat/save", {"kept": found[-1]["kept"]})[2])["run"]
    assert any(key == "Bearer s3cret-key" for *_, key, _ in server.asked)
    assert "s3cret-key" not in json.dumps(found)
    assert not any(b"s3cret-key" in path.read_bytes() for path in (out / run).rglob("*") if path.is_file())
    assert "s3cret-key" not in repr(wanted_of(question(server.url, key="s3cret-key")))


def test_several_at_once_are_told_with_their_spread_and_n(site: Site) -> None:
    with plain(Plain(answers={"/v1/chat/completions": ANSWER})) as server:
        end = events_of(site, question(server.url, at_once="4"))[-1]
    rows = {row["id"]: row for row in end["rows"]}
    assert rows["ttft"]["n"] == 4
    assert rows["ttft"]["value"].startswith("median ")
    assert rows["all"]["name"] == "all 4 together"
    assert len(end["kept"]) == 4


def test_a_server_without_a_chat_is_asked_as_plain_text(site: Site) -> None:
    answers: dict[str, Any] = {
        "/v1/chat/completions": (400, {"error": "no chat template"}),
        "/v1/completions": stream({"choices": [{"text": "x"}]}, {"choices": [{"text": "", "finish_reason": "length"}]}),
    }
    with plain(Plain(answers=answers)) as server:
        end = events_of(site, question(server.url))[-1]
    assert (end["endpoint"], end["error"]) == ("completions", "")
    assert "Say hello" in [body.get("prompt") for *_, body in server.asked]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((500, {"error": ENEMY}), "the server answers 500"),
        ((308, {"to": "http://169.254.169.254/"}), "sends elsewhere"),
        ((200, b"data: {]\n\n"), "not JSON"),
        ((200, b"data: " + b"[" * 5000 + b"\n\n"), "not JSON"),
        ((200, b"data: [1]\n\n"), "no object"),
        ((200, b"data: " + json.dumps(_word("x")).encode() + b"\n\n"), "in mid-answer"),
        ((200, b"<html>"), "before it began"),
    ],
)
def test_a_hostile_answer_is_one_sentence(site: Site, answer: Any, why: str) -> None:
    with plain(Plain(answers={"/v1/chat/completions": answer})) as server:
        end = events_of(site, question(server.url))[-1]
    assert why in end["error"]
    assert "\x1b" not in end["error"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"url": "http://169.254.169.254/latest"}, "TL271"), ({"url": ""}, "TL273"), ({"messages": []}, "TL273"),
        ({"at_once": "65"}, "TL273"), ({"temperature": "nan"}, "TL273"), ({"key": "a\nb: c"}, "TL273"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "TL273"), ({"max_tokens": "1e9"}, "TL273"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_before_anybody_is(site: Site, wrong: dict[str, Any], code: str) -> None:
    status, _, body = site.send("/chat/ask", question("127.0.0.1:9") | wrong)
    assert status == 400
    assert json.loads(body)["code"] == code


def test_a_body_that_is_no_json_or_nested_without_end_is_one_sentence(site: Site) -> None:
    for path in ("/chat/ask", "/chat/save"):
        for body in ("[" * 100_000, "{", "\\ud800"):
            status, answer = site.send_raw(path, body)
            assert status == 400
            assert "not JSON" in json.loads(answer)["error"]


def test_nothing_that_was_said_is_kept_in_memory(site: Site) -> None:
    with plain(Plain(answers={"/v1/chat/completions": ANSWER})) as server:
        names = events_of(site, question(server.url))[-1]["kept"]
    (exchange,) = kept(names)
    assert (exchange.wanted.messages, exchange.answer.parts, exchange.answer.text) == ((), [], "")
    assert len(exchange.chunk_ns) == 3


def test_the_page_works_without_script_and_shows_gauges_text_and_reasons(site: Site) -> None:
    with plain(Plain(answers={"/v1/chat/completions": ANSWER})) as server:
        status, _, body = site.post("/chat", {"a": server.url, "prompt": ENEMY})
    assert status == 200
    assert "<img src=x" not in body
    assert "Hello &lt;img" in body
    assert "n = 1" in body


def test_the_server_says_its_cache_and_queue_and_stopping_ends_its_work(site: Site) -> None:
    with _slow() as server:
        seen: list[dict[str, Any]] = []
        with contextlib.closing(site.open("/chat/ask", question(server.url))) as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    seen.append(json.loads(line[6:]))
                if {"text", "server"} <= {each["kind"] for each in seen}:
                    break
        gauges = next(each for each in seen if each["kind"] == "server")
        assert (gauges["kv_use"], gauges["running"], gauges["waiting"]) == (0.25, 1.0, 3.0)
        _until(lambda: server.broken)


def test_control_characters_are_signs_and_lines_stay_lines() -> None:
    assert shown("a\nb\tc\x00\x7f\x85\u2066") == "a\nb\tc␀␡⟨U+0085⟩⟨U+2066⟩"
    assert shown("naïve 👩‍🔬") == "naïve 👩‍🔬"


def test_figures_of_one_request_worked_by_hand() -> None:
    exchange = _exchange(sent_ns=0, chunk_ns=[200_000_000, 300_000_000, 500_000_000])
    assert tpot_s(exchange) == pytest.approx(0.15)
    rows = {row["id"]: row for row in figures([exchange])}
    assert (rows["ttft"]["plain"], rows["rate"]["plain"]) == (pytest.approx(0.2), pytest.approx(6.0))
    alone = _exchange(sent_ns=0, chunk_ns=[200_000_000])
    assert tpot_s(alone) is None
    assert "no time between tokens" in figures([alone])[1]["why"]
    assert cost(exchange)["why"] == "no price per million output tokens was given"
    exchange.wanted = replace(exchange.wanted, price_out=2.0)
    assert (cost(exchange)["value"], cost(exchange)["why"].partition(":")[0]) == ("0.000006", "its output tokens alone")
    exchange.wanted = replace(exchange.wanted, price_in=0.5)
    exchange.answer.usage = {"prompt_tokens": 8}
    assert (cost(exchange)["value"], cost(exchange)["why"]) == ("0.00001", "")


def test_beside_a_figure_stands_the_interval_of_the_run_that_measured_its_server(tmp_path: Path) -> None:
    run, summary = served_run(tmp_path, 2.0, seconds=20.0)
    told = measured_of([tmp_path], "http://127.0.0.1:8000/v1/")
    assert told["run"] == run.id
    assert told["tpot"].startswith("p50 ")
    assert told["tpot"].endswith(f", {summary.validity}, at 2 requests/s")
    assert measured_of([tmp_path], "http://127.0.0.1:8001/v1", "another model") == {}


def test_tokens_that_no_server_counted_are_not_known_and_every_page_of_the_run_says_so(tmp_path: Path) -> None:
    several = [_exchange(at * 10**9, [at * 10**9 + each * 10**8 for each in (2, 3, 5)]) for at in range(40)]
    for each in several[1:]:
        each.answer.usage = {"prompt_tokens": 7}
    for name, exchanges in (("one", several[:1]), ("none", [several[0]] * 2), ("some", several)):
        folder = saved(exchanges, tmp_path / name)
        run = tl.read(folder)[0]
        assert np.isnan(run.requests.input_tokens[0])
        assert list(run.requests.input_tokens[1:2]) in ([], [7.0]) or np.isnan(run.requests.input_tokens[1])
        tl.report([run], tmp_path / f"{name}.html")
        said = (str(tl.show(folder, whole=True)), str(tl.diagnose([run])), (tmp_path / f"{name}.html").read_text())
        assert [each for each in said if re.search(r"\bnan\b", each, re.IGNORECASE)] == []


def test_what_a_random_model_writes_is_said_to_mean_nothing() -> None:
    assert "answers mean nothing" in note_of({"model": "demo-34m", "is_random": "yes"})
    assert note_of({"model": "", "is_random": ""}) == ""
    assert short_name("/home/me/.cache/demo-34m-aa08") == "demo-34m-aa08"
    assert short_name("Qwen/Qwen3-8B") == "Qwen/Qwen3-8B"


def test_nothing_is_saved_of_a_talk_that_said_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nothing was answered"):
        saved([_exchange(sent_ns=0, chunk_ns=[])], tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert "[executor.options]" in spec_text([_exchange(sent_ns=0, chunk_ns=[1])])


class _Up:
    """A server as a launcher holds it, which is well for two looks and then ends as the test says."""

    running = SimpleNamespace(url="http://127.0.0.1:9/v1", model="demo-34m", ready_s=0.1)

    def __init__(self, folder: Path, end: type[BaseException] | None) -> None:
        self.folder, self.end, self.looks, self.stopped = folder, end, 0, False

    def is_well(self) -> bool:
        self.looks += 1
        assert json.loads((self.folder / WHERE).read_text())["url"] == self.running.url
        if self.looks > 1 and self.end is not None:
            raise self.end
        return self.looks < 2

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(("end", "code"), [(None, 3), (KeyboardInterrupt, 130)])
def test_a_started_server_says_where_it_is_and_is_ended_in_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: type[BaseException] | None, code: int
) -> None:
    up, said = _Up(tmp_path, end), []
    monkeypatch.setattr("twinlens.web.playground.serve.launcher", lambda kind: SimpleNamespace(launch=lambda *_: up))
    monkeypatch.setattr("twinlens.web.playground.serve._LOOK_S", 0.0)
    assert serve(tmp_path, tl.load("demo-serving"), said.append) == code
    assert up.stopped
    assert not (tmp_path / WHERE).exists()
    assert said[0] == "demo-34m is up at http://127.0.0.1:9/v1 after 0.1 s"


def test_only_examples_that_start_a_server_are_offered_and_started(site: Site, out: Path) -> None:
    assert "demo-serving" in [each.name for each in servable()]
    assert "decode" not in [each.name for each in servable()]
    for name in ("decode", "attached", "../chat", ""):
        status, _, body = site.post("/chat/serve", {"example": name})
        assert status == 400
        assert "TL273" in body
    assert not (out / ".jobs").exists()


def _exchange(sent_ns: int, chunk_ns: list[int]) -> Exchange:
    end_ns = chunk_ns[-1] if chunk_ns else 1
    return Exchange(wanted_of(question("127.0.0.1:9")), sent_ns, end_ns, 200, None, chunk_ns)


class _Slow:
    url = ""
    broken = False


@contextlib.contextmanager
def _slow() -> Iterator[_Slow]:
    """A server that goes on speaking until its client is gone, with a page of metrics."""
    state = _Slow()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            body = METRICS if self.path == "/metrics" else b'{"data": [{"id": "slow"}]}'
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(f"data: {json.dumps(_word('x '))}\n\n".encode())
                    time.sleep(0.05)
            except OSError:
                state.broken = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def _until(is_so: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.05)
