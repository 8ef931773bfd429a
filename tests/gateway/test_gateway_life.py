"""A gateway from its start to its end: the stock client, a file that changes, several processes, and the verb."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import openai
import psutil
from tests.gateway.scripted import CHAT, WORDS, Conversation, gateway_of, in_loop, scripted, whole

from twinlens.gateway.backend import Backend
from twinlens.gateway.launching import checked
from twinlens.gateway.limits.keys import new_key
from twinlens.gateway.serve import follow
from twinlens.record.store import read_run
from twinlens.simulation.law import one
from twinlens.simulation.rules import Rules
from twinlens.simulation.server.entry import Settings, serving

TEXT = "".join(WORDS)


def test_the_stock_client_never_notices_a_retry() -> None:
    async def fails(to: Conversation) -> None:
        await to.head("503 Service Unavailable", "application/json")

    def ask(url: str) -> list[str]:
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
        messages = [{"role": "user", "content": "tell"}]
        plain = client.chat.completions.create(model="m", messages=messages)  # type: ignore[arg-type]
        stream = client.chat.completions.create(model="m", messages=messages, stream=True,
                                                stream_options={"include_usage": True})  # type: ignore[call-overload]  # fmt: skip
        events = list(stream)
        assert events[-1].usage.total_tokens == 3 + len(WORDS)
        said = "".join(each.choices[0].delta.content or "" for each in events if each.choices)
        return [plain.choices[0].message.content or "", said, *(each.id for each in client.models.list())]

    async def run() -> None:
        async with (
            scripted(fails) as a,
            scripted(whole) as b,
            gateway_of(Backend("a", a.url, "m"), Backend("b", b.url, "m")) as served,
        ):
            assert await asyncio.to_thread(ask, served.url) == [TEXT, TEXT, "m"]
            assert {each.ending for each in served.told} == {"ok"}
            assert a.asked

    in_loop(run())


def test_a_file_that_changes_is_taken_and_one_that_is_wrong_is_not(tmp_path: Path) -> None:
    path, said = tmp_path / "gateway.toml", []

    async def run() -> None:
        async with scripted(whole) as a, scripted(whole) as b, gateway_of(Backend("a", a.url)) as served:
            path.write_text(_file(a=a.url))
            changed = asyncio.Event()
            following = asyncio.create_task(follow(served.app, path, {}, changed, said.append))
            await asyncio.sleep(0)

            async def told(count: int) -> None:
                changed.set()
                while len(said) < count:
                    await asyncio.sleep(0.01)

            path.write_text(_file(b=b.url))
            await told(1)
            assert (await served.stream(CHAT))[0] == TEXT
            assert (len(a.asked), len(b.asked)) == (0, 1)
            path.write_text("policy = 3\n" + _file(a=a.url))
            await told(2)
            assert (await served.stream(CHAT))[0] == TEXT
            assert (len(a.asked), len(b.asked)) == (0, 2)
            path.write_text("port = 1\n" + _file(a=a.url, b=b.url))
            await told(3)
            following.cancel()

    in_loop(run())
    assert said[0].startswith("gateway.toml is read again: 1 backends")
    assert said[1].startswith("the settings stay as they were: gateway.toml: field 'policy'")
    assert said[2].endswith("port: from the next start on")


def _file(**urls: str) -> str:
    return "".join(f'[[backend]]\nname = "{name}"\nurl = "{url}"\n' for name, url in urls.items())


@contextmanager
def _verb(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "twinlens", "gateway", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=path.parent) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        url = re.search(r"http://\S+", line)
        try:
            assert url, line + process.stderr.read()
            yield process, url[0]
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(60)


def test_the_verb_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    with serving(one(0.002), Rules(), Settings(port=0, model="m")) as backend:
        path = tmp_path / "gateway.toml"
        path.write_text(f"port = 0\n{_file(a=backend)}")
        with _verb(path) as (process, url):
            assert _asked(url)["usage"]["completion_tokens"] == 4
            root = url.removesuffix("/v1")
            assert json.loads(_page(f"{root}/gateway"))["requests"] == {"ok": 1}
            _until(lambda: 'requests_total{backend="a",ending="ok",key=""} 1.0' in _page(f"{root}/metrics"))
            process.send_signal(signal.SIGINT)
            assert process.wait(60) in (0, 130)
        assert not psutil.pid_exists(process.pid) or psutil.Process(process.pid).status() == "zombie"


def test_two_processes_share_one_budget_and_one_that_is_killed_in_mid_traffic_gives_none_of_it_away(
    tmp_path: Path,
) -> None:
    """0.4 USD is 100 answers of 4 tokens. A killed process takes along what it held ahead (at most 16 requests) and
    what was on its way (8); the rest is spent to its end, and nothing beyond it."""
    (key, lines), path, out = new_key("team"), tmp_path / "gateway.toml", tmp_path / "gateway"
    with serving(one(0.002), Rules(), Settings(port=0, model="m")) as backend:
        priced = f'{_file(a=backend)}price_per_million = "1000.00 USD"\n'
        path.write_text(f'port = 0\nprocesses = 2\n{priced}{lines}\nmoney_per_day = "0.40 USD"\n')
        with _verb(path) as (process, url), ThreadPoolExecutor(8) as pool:
            _asked(url, key)
            workers = psutil.Process(process.pid).children()
            assert len(workers) == 2
            told = [200, *pool.map(lambda _: _status(url, key), range(40))]
            _until(lambda: len(_well(out)) == 41)
            going = [pool.submit(_status, url, key) for _ in range(30)]
            os.kill(workers[0].pid, signal.SIGKILL)
            meanwhile = [each.result() for each in going]
            told += meanwhile
            _until(lambda: len(psutil.Process(process.pid).children()) == 2)
            while 402 not in told[-8:] or len(told) < 150:
                told += pool.map(lambda _: _status(url, key), range(8))
            time.sleep(1.5)  # what the processes hold ahead is given back each second
            while (last := _status(url, key)) == 200:
                told.append(last)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) in (0, 130)
        assert not any(each.is_running() and each.status() != "zombie" for each in workers)
    answered = told.count(200)
    assert 100 - 16 - 8 <= answered <= 100
    assert set(told) <= {200, 402, 0}
    rows = len(_well(out))
    assert answered - meanwhile.count(200) <= rows <= answered + told.count(0), "0.2 s of one process may be lost"
    with contextlib.closing(sqlite3.connect(out / "limits.sqlite")) as ledger:
        ((money,),) = ledger.execute("SELECT money FROM day WHERE key = 'team'").fetchall()
    assert answered * 4 * Decimal("0.001") <= Decimal(money) <= Decimal("0.40")


def _status(url: str, key: str) -> int:
    """Of one answer; 0 where the connection was lost with its process."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 4}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body, headers)) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def _asked(url: str, key: str = "none") -> dict[str, dict[str, int]]:
    """One answer; a process that has just been killed may have had the connection."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 4}).encode()
    request = urllib.request.Request(
        f"{url}/chat/completions", body, {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    )
    for _ in range(600):
        try:
            with urllib.request.urlopen(request) as answer:
                said: dict[str, dict[str, int]] = json.loads(answer.read())
                return said
        except OSError:
            time.sleep(0.1)
    raise AssertionError("no answer")


def test_a_file_can_be_checked_without_serving(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    with serving(one(0.002), Rules(), Settings(port=0, model="m")) as backend:
        path.write_text(_file(a=backend, dead="http://127.0.0.1:9/v1"))
        head, a, dead = checked(path)
    assert head == "2 backends, policy least-ttft, after a loss: end, no keys"
    assert a == f"a at {backend}: m; not measured (no run is named for it)"
    assert dead.startswith("dead at http://127.0.0.1:9/v1: no model known; not measured (not asked: no server answers")


def test_a_gateway_that_is_killed_keeps_its_rows_and_its_budgets(tmp_path: Path) -> None:
    key, lines = new_key("team")
    path = tmp_path / "gateway.toml"
    with serving(one(0.002), Rules(), Settings(port=0, model="m")) as backend:
        priced = f'{_file(a=backend)}price_per_million = "1000.00 USD"\n'
        path.write_text(f'port = 0\n{priced}{lines}\nmoney_per_day = "1.00 USD"\n')
        with _verb(path) as (process, url):
            for _ in range(12):
                _asked(url, key)
            out = tmp_path / "gateway"
            _until(lambda: len(_rows(out)) == 12)
            time.sleep(1.5)  # budgets are flushed each second
            os.kill(process.pid, signal.SIGKILL)
            process.wait(60)
    assert [(each["outcome"], each["output_tokens"]) for each in _rows(out)] == [("ok", 4)] * 12
    with contextlib.closing(sqlite3.connect(out / "limits.sqlite")) as ledger:
        ((money,),) = ledger.execute("SELECT money FROM day WHERE key = 'team'").fetchall()
    assert Decimal(money) == 12 * 4 * Decimal("0.001")


def _page(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())


def _rows(out: Path) -> list[dict[str, Any]]:
    found = [read_run(each.parent) for each in out.glob("*/run.json")]
    return [row for run in found for row in run.table.to_pylist()]


def _well(out: Path) -> list[dict[str, Any]]:
    return [each for each in _rows(out) if each["outcome"] == "ok"]


def _until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come")
