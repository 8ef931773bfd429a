"""GuideLLM, AIPerf and `vllm bench serve` beside ours and the C floor, in turns, on the server that knows the truth.

    python -m benchmarks.load_generator.peers [--streams 64,256,1000] [--requests 1024] [--repeats 3] [--realtime]

Two tables a number of streams. Cost: processor seconds of the whole process tree, that of a run of ten requests taken
off for the marginal cost of a token; with it, for a run of 1,000 requests; memory; what each says of TTFT and ITL, by
its own words, beside what the server knows. Variants: each peer's own figures, our variants over its own rows (do we
compute what it computes?), over ours of the same load, and over the server's (what would be right?).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.load_generator.material import Order, requests_of, write_material
from benchmarks.load_generator.peer_tools import PEERS, Peer, environment, prepare
from benchmarks.load_generator.run import HERE, ITL_US, TTFT_US, build, head, line, read_rows, truth

from twinlens.record.arrow import read_rows as read_arrows
from twinlens.record.request import REQUEST_SCHEMA, Requests
from twinlens.stats.peers.variants import variants

SMALL_STREAMS, SMALL_REQUESTS = 4, 10
Times = tuple[float, float, float, float]
"""TTFT p50 and p99, ITL p50 and p99, ms."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One client once. `said`: its figures by its own names; `rows`: its own records; `true`: the server's."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    times: Times | None
    said: dict[str, float]
    rows: Requests | None
    true: Requests


def metered(words: Sequence[str], variables: dict[str, str]) -> dict[str, float]:
    """A command's cost. Raises RuntimeError with its last words where it fails."""
    out = subprocess.run([sys.executable, str(HERE / "meter.py"), *words], capture_output=True, text=True,
                         env=environment(variables), timeout=900)  # fmt: skip
    if out.returncode:
        raise RuntimeError(f"{Path(words[0]).name} failed: {out.stderr.strip()[-500:]}")
    return dict(json.loads(out.stdout.splitlines()[-1]))


def measured(client: str | Peer, streams: int, requests: int, options: argparse.Namespace, folder: Path) -> Outcome:
    """One client against a fresh server."""
    with truth(folder, TTFT_US, ITL_US, options.realtime) as port:
        order = Order(port, streams, requests, options.tokens, folder)
        cost = metered(
            *(_own_command(client, order) if isinstance(client, str) else client.command(client.venv, order))
        )
    true = _true_rows(folder, requests)
    plain = (cost["cpu_s"], cost["wall_s"], cost["peak_mb"])
    if isinstance(client, Peer):
        said = client.says(folder)
        return Outcome(*plain, client.times(said), said, client.rows(folder), true)
    rows = None if client == "C" else Requests.from_table(read_arrows(_own_rows(client, folder), REQUEST_SCHEMA))
    return Outcome(*plain, None if rows is None else times_of(rows), {}, rows, true)


def _own_command(client: str, order: Order) -> tuple[list[str], dict[str, str]]:
    here = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    if client == "C":
        sizes = [order.port, str(order.streams), str(order.requests), str(order.tokens), "1"]
        return [str(order.folder / "floor_client"), *sizes, str(order.folder / "floor.rows")], {}
    (order.folder / "ours.arrows").unlink(missing_ok=True)
    if client == "ours":
        load = f"closed:{order.streams}:{order.requests}"
        return [
            sys.executable,
            str(HERE / "ours.py"),
            order.port,
            load,
            str(order.tokens),
            str(order.folder),
            "1",
        ], here
    runs = order.folder / "runs"
    subprocess.run(["rm", "-rf", str(runs)], check=True)
    (order.folder / "spec.toml").write_text(_SPEC.format(order=order, least=max(1, order.requests - order.streams + 1)))
    words = ["-m", "twinlens.cli.main", "measure", str(order.folder / "spec.toml"), "--out", str(runs), "-q"]
    return [sys.executable, *words], here


_SPEC = """
schema = 1
name = "peers"
[executor]
kind = "openai-http"
options = {{ url = "{order.url}/v1" }}
[workload]
kind = "inference"
model = "tiny"
input_tokens = {{ kind = "fixed", value = 128 }}
output_tokens = {{ kind = "fixed", value = {order.tokens} }}
arrival = {{ kind = "closed" }}
[point]
concurrency = {order.streams}
[protocol]
duration_s = 0.001
min_rows = {least}
repeats = 1
extend = 0
"""


def _own_rows(client: str, folder: Path) -> Path:
    return folder / "ours.arrows" if client == "ours" else next((folder / "runs").glob("**/requests.arrows"))


def _true_rows(folder: Path, requests: int) -> Requests:
    """The server's last so many: what came before was a probe."""
    found = [row for _, row in sorted(read_rows(folder / "truth.rows").items())][-requests:]
    return requests_of([int(r[0]) for r in found], [r[1:] for r in found], [int(r[-1]) for r in found],
                       [len(r) - 1 for r in found])  # fmt: skip


def times_of(rows: Requests) -> Times:
    """From sending, as peers count."""
    ttft = (rows.first_chunk_ns() - rows.sent_ns) / 1e6
    within = np.ones(len(rows.chunk_ns), bool)
    within[rows.offsets[:-1]] = False
    itl = np.diff(rows.chunk_ns, prepend=0)[within] / 1e6
    return (*np.percentile(ttft[np.isfinite(ttft)], [50, 99]).tolist(), *np.percentile(itl, [50, 99]).tolist())


def compare(streams: int, clients: Sequence[str | Peer], options: argparse.Namespace, folder: Path) -> None:
    """Both tables for one number of streams."""
    requests = max(options.requests, 4 * streams)
    write_material(folder, requests, options.tokens)
    small: dict[str, list[Outcome]] = {}
    found: dict[str, list[Outcome]] = {}
    for repeat in range(options.repeats):
        for client in clients if repeat % 2 == 0 else clients[::-1]:
            name = client if isinstance(client, str) else client.name
            try:
                small.setdefault(name, []).append(measured(client, SMALL_STREAMS, SMALL_REQUESTS, options, folder))
                found.setdefault(name, []).append(measured(client, streams, requests, options, folder))
            except (RuntimeError, OSError, ValueError, KeyError, StopIteration, subprocess.TimeoutExpired) as error:
                print(f"\n{name} at {streams} streams: {type(error).__name__}: {str(error)[-400:]}", flush=True)
    busy = os.getloadavg()[0]
    print(f"\n{streams} streams, {requests} requests of {options.tokens} tokens, {options.repeats} repeats, "
          f"load {busy:.1f}\n")  # fmt: skip
    _costs(small, found, requests, options.tokens)
    _variants(clients, found, streams)


def _costs(small: dict[str, list[Outcome]], found: dict[str, list[Outcome]], requests: int, tokens: int) -> None:
    head("client", "µs CPU/token", "÷ ours", "CPU s of 10 requests", "CPU s of 1,000 requests", "÷ ours",
         "peak MB (PSS)", "TTFT p50 / p99 ms (true)", "ITL p50 / p99 ms (true)")  # fmt: skip
    slope = {name: [(b.cpu_s - a.cpu_s) / (len(b.true) - SMALL_REQUESTS) / tokens * 1e6
                    for a, b in zip(small[name], found[name], strict=False)] for name in found}  # fmt: skip
    whole = {name: [a.cpu_s + s * tokens * (1000 - SMALL_REQUESTS) / 1e6
                    for a, s in zip(small[name], slope[name], strict=False)] for name in found}  # fmt: skip
    for name, outcomes in found.items():
        times, true = (outcomes[-1].times, times_of(outcomes[-1].true))
        line(
            name,
            f"{statistics.median(slope[name]):.1f}",
            _ratio(slope, name),
            f"{statistics.median(one.cpu_s for one in small[name]):.2f}",
            f"{statistics.median(whole[name]):.2f}",
            _ratio(whole, name),
            f"{max(one.peak_mb for one in outcomes):.0f}",
            _beside(times, true, 0),
            _beside(times, true, 2),
        )


def _ratio(figures: dict[str, list[float]], name: str) -> str:
    """The median over repeats, each against ours of the same repeat, and the range of all of them."""
    found = [one / ours for one, ours in zip(figures[name], figures.get("ours", []), strict=False)]
    if not found:
        return ""
    spread = f" ({min(found):.2f}–{max(found):.2f})" if len(found) > 1 else ""
    return f"{statistics.median(found):.2f}{spread}"


def _beside(times: Times | None, true: Times, at: int) -> str:
    said = "" if times is None else f"{times[at]:.2f} / {times[at + 1]:.2f} "
    return f"{said}({true[at]:.2f} / {true[at + 1]:.2f})"


def _variants(clients: Sequence[str | Peer], found: dict[str, list[Outcome]], streams: int) -> None:
    print(f"\nEach peer's own figures at {streams} streams, and our variants of the same name\n")
    head("figure", "it says (spread of repeats)", "ours over its rows", "apart", "ours over our rows", "apart",
         "over the server's rows")  # fmt: skip
    for client in clients:
        if isinstance(client, str) or not found.get(client.name):
            continue
        outcomes = found[client.name]
        last, mine = outcomes[-1], found.get("ours", [])
        over = [{} if rows is None else variants(rows) for rows in
                (last.rows, mine[-1].rows if mine else None, last.true)]  # fmt: skip
        for id in sorted(set(over[0]) | set(over[2])):
            tool, _, name = id.partition(".")
            if tool != client.name or name not in last.said or "total_token" in name:
                continue
            theirs = last.said[name]
            spread = max(one.said[name] for one in outcomes) - min(one.said[name] for one in outcomes)
            values = [part[id].value if id in part else None for part in over]
            line(id, f"{theirs:.4g} ({spread:.2g})", _show(values[0]), _apart(values[0], theirs), _show(values[1]),
                 _apart(values[1], theirs), _show(values[2]))  # fmt: skip


def _show(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _apart(value: float | None, theirs: float) -> str:
    return "" if value is None or not theirs else f"{100 * (value / theirs - 1):+.1f} %"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load_generator.peers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--streams", default="64,256,1000")
    parser.add_argument("--requests", type=int, default=1024, help="at least; four a stream otherwise")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="names of clients, with commas: C, ours, measure, guidellm, …")
    parser.add_argument("--realtime", action="store_true", help="run the server under SCHED_RR, where that is allowed")
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name]
    own = ("C", "ours", "measure")
    clients: list[str | Peer] = [name for name in own if not names or name in names]
    for peer in PEERS:
        if names and peer.name not in names:
            continue
        why = prepare(peer)
        if why:
            print(f"{peer.name}: {why}", flush=True)
        else:
            clients.append(peer)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        for streams in options.streams.split(","):
            compare(int(streams), clients, options, folder)


if __name__ == "__main__":
    main()
