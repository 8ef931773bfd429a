"""What does a gateway take a token and a request, what does it add to TTFT: ours beside others, by turns.

Every way and the bare server have a turn in each round, in an order that rotates: 64 streams that begin one after
another, then plain requests. Processor time is that of the gateway's own processes, by the scheduler; added TTFT is the
quantile of a turn less that of the direct turn of the same round. Then ours alone: its parts by themselves, tokens a
second through one process, and its memory over many requests.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import aiohttp
import numpy as np

from benchmarks.finding import Finding, cells, taken_on, watched, with_neighbours
from benchmarks.gateway.endurance import GAP_S, growth, throughput
from benchmarks.gateway.parts import parts
from benchmarks.gateway.ways import HERE, Way, commands, free_port, up, versions
from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.quantile import interval_ranks, needed_for_quantile
from twinlens.units import BYTES, RATIO, SECONDS

PAGE = Path(__file__).parents[2] / "docs" / "results" / "gateway-speed.md"
_TARGETS = {"token": 60e-6, "request": 0.6e-3, "p50": 0.5e-3, "p99": 3e-3, "memory": 120e6, "start": 0.5}
_WORDS = {"model": "null", "messages": [{"role": "user", "content": "how does a gateway add so little?"}]}
_NOTES = (
    "Tokens come one at a time in the turns, at up to 25 a second in each stream: each costs a wake-up, a read and a "
    "write of its own. `bare sockets` is the least of that which Python's event loop can do: it understands nothing. "
    "What ours takes beyond it is ours; what it takes itself is the system's, and dearer on a busy machine. Ratios in "
    "one round hold better than microseconds.",
    "Ours writes its rows in all of this. Its start is counted until it has answered once; nearly all is imports: "
    "aiohttp, pydantic, numpy and pyarrow, of which the bare splice pays for the first alone.",
    "A decision explains each of its 16 candidates, with two bands; a record is two batches of columns, a fifth of a "
    "second's rows in each, and histograms.",
)
_LITELLM = (
    "LiteLLM is beyond one processor at this load: its added TTFT is a queue. It is installed without "
    "`litellm-proxy-extras`, which was not to be had, and with the modules of its proxy by name."
)
Turn = dict[str, float]


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gateway", description=__doc__)
    parser.add_argument("--peers", type=Path, default=Path("/tmp/peers"), help="a folder with an environment a peer")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--plain", type=int, default=100, help="plain requests of a turn, four at a time")
    parser.add_argument("--many", type=int, default=200_000, help="plain requests over which memory is watched")
    parser.add_argument("--many-s", type=float, default=150.0, help="the longest that these may take")
    parser.add_argument("--fast-s", type=float, default=15.0, help="how long 10,240 tokens a second are offered")
    return parser


def run(asked: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """The findings and what to know about them."""
    named = ", ".join(f"{name} {version}" for name, version in versions(asked.peers).items())
    notes = [
        f"{asked.streams} streams of {asked.tokens} tokens, one every 40 ms, begun 20 ms apart; {asked.plain} plain "
        f"requests of 16 tokens, four at a time; {asked.rounds} rounds.",
        f"Versions: {named}.",
    ]
    with watched() as seen, tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder, ways = Path(name), list[Way]()
        direct = stack.enter_context(_server())
        for each, (command, at) in commands(asked.peers, folder, direct).items():
            try:
                ways.append(stack.enter_context(up(each, command, at, folder)))
            except RuntimeError as why:
                notes.append(str(why))
        turns = asyncio.run(_rounds(direct, ways, asked))
        memory = {way.name: float(way.resident_bytes()) for way in ways}
    findings = with_neighbours([
        *(found for way in ways for found in _findings(way, turns, memory[way.name])), *_ratios(turns)
    ], seen)  # fmt: skip
    more, told = _alone(asked)
    if any(way.name == "LiteLLM" for way in ways):
        told.append(_LITELLM)
    return [*findings, *more], [*notes, *told, *_NOTES]


def _alone(asked: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Ours by itself, with a process of its own for each."""
    with watched() as seen:
        findings = parts()
        with _ours(GAP_S) as way:
            findings += throughput(way, max(1, round(asked.fast_s / GAP_S)))
        with _ours() as way:
            more, told = growth(way, asked.many, asked.many_s)
    return with_neighbours(findings + more, seen), [told]


@contextlib.contextmanager
def _ours(gap_s: float | None = None) -> Iterator[Way]:
    with tempfile.TemporaryDirectory() as name, _server(gap_s) as direct:
        command, port = commands(Path(name) / "none", Path(name), direct)["ours"]
        with up("ours", command, port, Path(name)) as way:
            yield way


@contextlib.contextmanager
def _server(gap_s: float | None = None) -> Iterator[str]:
    """The address of a server that computes nothing, as far as the port."""
    port = free_port()
    words = [str(port), *([str(gap_s)] if gap_s else [])]
    upstream = subprocess.Popen([sys.executable, str(HERE / "upstream.py"), *words])
    try:
        time.sleep(1)
        yield f"http://127.0.0.1:{port}"
    finally:
        upstream.terminate()
        upstream.wait()


async def _rounds(direct: str, ways: Sequence[Way], asked: argparse.Namespace) -> dict[str, list[Turn]]:
    places: list[Way | None] = [None, *ways]
    turns: dict[str, list[Turn]] = {"direct": [], **{way.name: [] for way in ways}}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        for number in range(-1, asked.rounds):
            shift = number % len(places)
            for way in places[shift:] + places[:shift]:
                turn = await _turn(session, way.url if way else direct, way, asked)
                if number >= 0:
                    turns[way.name if way else "direct"].append(turn)
    return turns


async def _turn(session: aiohttp.ClientSession, url: str, way: Way | None, asked: argparse.Namespace) -> Turn:
    before_s = way.spent_s() if way else 0.0
    streamed = await asyncio.gather(*(_stream(session, url, n * 0.02, asked.tokens) for n in range(asked.streams)))
    between_s = way.spent_s() if way else 0.0
    plain = asyncio.Semaphore(4)
    ok = await asyncio.gather(*(_plain(session, url, plain) for _ in range(asked.plain)))
    after_s = way.spent_s() if way else 0.0
    first_s = [first for first, _ in streamed if first is not None]
    p50, p99 = np.quantile(first_s, [0.5, 0.99]) if first_s else (np.nan, np.nan)
    tokens = sum(count for _, count in streamed)
    failed = sum(count != asked.tokens for _, count in streamed) + ok.count(False)
    return {"token": (between_s - before_s) / max(1, tokens), "request": (after_s - between_s) / asked.plain,
            "p50": float(p50), "p99": float(p99), "failed": float(failed)}  # fmt: skip


async def _stream(session: aiohttp.ClientSession, url: str, wait_s: float, tokens: int) -> tuple[float | None, int]:
    """Seconds to the first content, and how many content events came."""
    await asyncio.sleep(wait_s)
    begin_s, first_s, got = time.monotonic(), None, 0
    body = {**_WORDS, "stream": True, "max_tokens": tokens}
    try:
        async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
            async for line in answer.content:
                if b'"content":" word"' in line or b'"content": " word"' in line:
                    first_s = first_s if first_s is not None else time.monotonic() - begin_s
                    got += 1
    except aiohttp.ClientError:
        pass
    return first_s, got


async def _plain(session: aiohttp.ClientSession, url: str, places: asyncio.Semaphore) -> bool:
    async with places:
        try:
            async with session.post(f"{url}/v1/chat/completions", json={**_WORDS, "max_tokens": 16}) as answer:
                return b"word" in await answer.read()
        except aiohttp.ClientError:
            return False


def _findings(way: Way, turns: dict[str, list[Turn]], memory: float) -> list[Finding]:
    mine, direct = turns[way.name], turns["direct"]
    target = _TARGETS if way.name == "ours" else {}
    failed = sum(each["failed"] for each in mine)
    note = f"{failed:g} requests failed" if failed else ""
    found = [
        Finding(f"{way.name}: CPU a streamed token", _middle([each["token"] for each in mine]), target.get("token"),
                note=note),
        Finding(f"{way.name}: CPU a plain request", _middle([each["request"] for each in mine]), target.get("request")),
    ]  # fmt: skip
    for name in ("p50", "p99"):
        gaps = [each[name] - other[name] for each, other in zip(mine, direct, strict=True)]
        found.append(Finding(f"{way.name}: added TTFT {name}", _middle(gaps), target.get(name)))
    once = Estimate(memory, BYTES, "resident, after all turns", "measured", n=1, no_interval="one process")
    start = Estimate(way.start_s, SECONDS, "processor time until it answered", "measured", n=1, no_interval="one start")
    return [*found, Finding(f"{way.name}: memory", once, target.get("memory")),
            Finding(f"{way.name}: CPU of the start", start, target.get("start"))]  # fmt: skip


def _ratios(turns: dict[str, list[Turn]]) -> list[Finding]:
    """Processor time of each over that of the bare splice in the same round: a busy machine makes both dearer."""
    bare = turns.get("bare aiohttp", [])
    return [
        Finding(f"{name} / bare aiohttp: CPU a {what}", replace(_middle([
            each[key] / other[key] for each, other in zip(mine, bare, strict=False)]), unit=RATIO))
        for name, mine in turns.items() if name not in ("direct", "bare aiohttp")
        for key, what in (("token", "streamed token"), ("request", "plain request"))
    ]  # fmt: skip


def _middle(values: Sequence[float]) -> Estimate:
    """The median turn with its order-statistic interval."""
    ordered, size = sorted(values), len(values)
    said = f"median of {size} turns, interval of order statistics"
    middle = statistics.median(ordered)
    if size < needed_for_quantile(0.5, 0.95):
        return Estimate(middle, SECONDS, said, "measured", n=size, no_interval=f"{size} turns are too few")
    low, high = (ordered[rank - 1] for rank in interval_ranks(size, 0.5, 0.95))
    return Estimate(middle, SECONDS, said, "measured", low, high, 0.95, size)


def write_page(findings: Sequence[Finding], notes: Sequence[str]) -> Path:
    """docs/results/gateway-speed.md."""
    facts = taken_on()
    where = facts.get("host.cpu.model", facts["system"])
    lines = [
        "# What a gateway costs and adds",
        "",
        "Ours (rows written, one backend) beside a bare splice of aiohttp and other gateways, all before a server that",
        "computes nothing, by turns (`python -m benchmarks gateway --save`). Added TTFT is that of a turn less that of",
        "the direct turn of its round.",
        "",
        f"Taken on {where}, Python {facts['python']}.",
        "",
        "| what | value | 95 % interval | n | goal | | note |",
        "|---|--:|--:|--:|---|---|---|",
    ]
    lines += ["| " + " | ".join(cells(found)) + " |" for found in findings]
    wrapped = [textwrap.fill(f"- {note}", 140, subsequent_indent="  ", break_on_hyphens=False) for note in notes]
    PAGE.write_text("\n".join([*lines, "", *wrapped]) + "\n", encoding="utf-8")
    return PAGE
