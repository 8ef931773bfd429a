"""Our client beside the C floor (and peers whose commands are here), interleaved, on a server that knows the truth.

    python benchmarks/load_generator/run.py [--streams 64,256,1000] [--rates 40,400,3000] [--repeats 3] [--realtime]
    python benchmarks/load_generator/run.py --realtime --streams "" --rates "" --ends 64,256 --repeats 5

Closed loops give CPU per token and the errors of TTFT and ITL against the server's own stamps; open loops give lateness
and whether the achieved gaps are those planned. CPU of ours is that of playing, start-up apart; the floor's is whole.
Another program on the machine makes errors larger and, as reads merge, CPU per token smaller: ratios of one run count.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
TOKENS, TTFT_US, ITL_US = 128, 20_000, 10_000
STEP_US, ENDS, ENDS_TOKENS = 10_000, 12, 32
Rows = dict[int, np.ndarray]
"""By the server's number of the request: when it was read or sent, then each token's time, in ns."""


@dataclass(frozen=True, slots=True)
class Result:
    """One client in one repeat. Errors in ms, against the truth of the same request."""

    client: str
    us_per_token: float
    peak_mb: float
    ttft_error_ms: np.ndarray
    itl_error_ms: np.ndarray
    said: dict[str, Any]


def leave_a_core() -> None:
    """Let the clients keep off one core, which is then the server's: a client behind a server that nothing may interrupt
    waits for it, as it never would on a machine of its own."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, cores[:-1])


def on_the_spare_core(words: list[str]) -> list[str]:
    """A command, kept to the core that `leave_a_core` has left, if there is one."""
    spare = set(range(os.cpu_count() or 1)) - os.sched_getaffinity(0)
    return ["taskset", "-c", str(max(spare)), *words] if spare else words


def build(folder: Path) -> None:
    """Compile the C programs."""
    for name in ("truth_server", "floor_client"):
        subprocess.run(["cc", "-O2", "-o", folder / name, HERE / f"{name}.c"], check=True)


@contextlib.contextmanager
def truth(folder: Path, ttft_us: int, itl_us: int, realtime: bool, step_us: int = 0) -> Iterator[str]:
    """A running truth server; gives its port. Its rows are in truth.rows once it has stopped."""
    words = [str(folder / "truth_server"), str(ttft_us), str(itl_us), str(folder / "truth.rows"), str(step_us)]
    if realtime and shutil.which("chrt"):
        words = ["chrt", "--rr", "1", *words]
    with subprocess.Popen(on_the_spare_core(words), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(10)


def read_rows(path: Path) -> Rows:
    """What the C programs write."""
    data, at, rows = np.fromfile(path, np.int64), 0, Rows()
    while at < len(data):
        number, begin, count = data[at : at + 3]
        rows[int(number)] = np.concatenate([[begin], data[at + 3 : at + 3 + count]])
        at += 3 + int(count)
    return rows


def our_rows(folder: Path) -> Rows:
    """What ours.py writes."""
    chunks = np.load(folder / "ours_chunks.npz")
    return {int(n): chunks[f"arr_{i}"] for i, n in enumerate(np.load(folder / "ours_numbers.npy"))}


def errors_ms(said: Rows, true: Rows) -> tuple[np.ndarray, np.ndarray]:
    """TTFT and ITL, said less true. Raises ValueError where a request or a token is missing."""
    ttft, itl = [], []
    for number, row in said.items():
        if len(row) != len(true[number]):
            raise ValueError(f"request {number}: {len(row) - 1} tokens said, {len(true[number]) - 1} sent")
        ttft.append((row[1] - row[0]) - (true[number][1] - true[number][0]))
        itl.append(np.diff(row[1:]) - np.diff(true[number][1:]))
    return np.array(ttft) / 1e6, np.concatenate(itl) / 1e6


def floor(folder: Path, port: str, streams: int, requests: int, stamps: bool) -> Result:
    """The C client once."""
    words = [str(folder / "floor_client"), port, str(streams), str(requests), str(TOKENS), str(int(stamps))]
    out = subprocess.run([*words, str(folder / "floor.rows")], capture_output=True, text=True, check=True).stdout
    cpu_s, wall_s, peak_kib = map(float, out.split())
    name = "C, kernel stamps" if stamps else "C"
    return Result(name, cpu_s * 1e6 / requests / TOKENS, peak_kib / 1024, *([np.empty(0)] * 2), {"wall_s": wall_s})


def ours(folder: Path, port: str, load: str, tokens: int, stamps: bool = True) -> dict[str, Any]:
    """Our client once; what it prints."""
    words = [sys.executable, str(HERE / "ours.py"), port, load, str(tokens), str(folder), str(int(stamps))]
    out = subprocess.run(words, capture_output=True, text=True)
    if out.returncode:
        raise RuntimeError(out.stderr[-2000:])
    return dict(json.loads(out.stdout))


def closed(folder: Path, client: str, streams: int, requests: int, realtime: bool) -> Result:
    """One client against a fresh server in a closed loop."""
    with truth(folder, TTFT_US, ITL_US, realtime) as port:
        if client.startswith("C"):
            result = floor(folder, port, streams, requests, client != "C")
        else:
            said = ours(folder, port, f"closed:{streams}:{requests}", TOKENS, client == "ours")
            per_token = said["cpu_s"] * 1e6 / requests / TOKENS
            result = Result(client, per_token, said["peak_kib"] / 1024, *([np.empty(0)] * 2), said)
    rows = read_rows(folder / "floor.rows") if client.startswith("C") else our_rows(folder)
    ttft, itl = errors_ms(rows, read_rows(folder / "truth.rows"))
    return Result(client, result.us_per_token, result.peak_mb, ttft, itl, result.said)


def compare(folder: Path, streams: int, repeats: int, realtime: bool) -> None:
    """All clients in turn, `repeats` times, and their table."""
    requests = max(512, 4 * streams)
    clients = ("C", "C, kernel stamps", "ours", "ours, no stamps")
    found: dict[str, list[Result]] = {client: [] for client in clients}
    for repeat in range(repeats):
        for client in clients if repeat % 2 == 0 else clients[::-1]:
            found[client].append(closed(folder, client, streams, requests, realtime))
    busy = os.getloadavg()[0]
    print(f"\n{streams} streams, {requests} requests of {TOKENS} tokens, {repeats} repeats, load {busy:.1f}")
    head(
        "client",
        "µs CPU/token",
        "÷ C",
        "TTFT error p50 / p99 ms",
        "ITL error p99 ms",
        "peak MB",
        "lag p99 ms",
        "merged",
    )
    base = [result.us_per_token for result in found["C"]]
    for client, results in found.items():
        ratios = sorted(r.us_per_token / b for r, b in zip(results, base, strict=True))
        ttft = np.abs(np.concatenate([r.ttft_error_ms for r in results]))
        itl = np.abs(np.concatenate([r.itl_error_ms for r in results]))
        p50, p99 = np.percentile(ttft, [50, 99])
        said = results[-1].said.get("client", {})
        lag = f"{(said.get('lag_p99_ns') or 0) / 1e6:.2f}" if said else ""
        line(
            client,
            f"{statistics.median(r.us_per_token for r in results):.1f}",
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})",
            f"{p50:.3f} / {p99:.3f}",
            f"{np.percentile(itl, 99):.3f}",
            f"{max(r.peak_mb for r in results):.0f}",
            lag,
            said.get("merged_reads", ""),
        )
    starts = [r.said["start_cpu_s"] for r in found["ours"]]
    print(f"start-up of ours: {statistics.median(starts):.2f} s CPU (imports and the first question included)")


def lateness(folder: Path, rate: float, realtime: bool) -> None:
    """Ours in an open loop: how late, and whether the gaps are those planned."""
    seconds, tokens = min(20.0, 8000 / rate), 128 if rate <= 400 else 4
    with truth(folder, TTFT_US, ITL_US, realtime) as port:
        said = ours(folder, port, f"open:{rate}:{seconds}", tokens)
    ttft, itl = errors_ms(our_rows(folder), read_rows(folder / "truth.rows"))
    late = np.array(said["late_ns"]) / 1e6
    planned, sent = (np.diff(np.sort(said[key])) for key in ("intended_ns", "sent_ns"))
    both = np.sort(np.concatenate([planned, sent]))
    gaps = [np.searchsorted(np.sort(part), both, "right") / len(part) for part in (planned, sent)]
    p50, p99, worst = np.percentile(late, [50, 99, 100])
    t50, t99 = np.percentile(np.abs(ttft), [50, 99])
    line(
        f"{rate:g}",
        f"{said['requests']} x {tokens}",
        f"{p50:.3f} / {p99:.3f} / {worst:.3f}",
        f"{np.abs(gaps[0] - gaps[1]).max():.3f}",
        f"{np.std(sent) / np.mean(sent):.2f} ({np.std(planned) / np.mean(planned):.2f})",
        f"{t50:.3f} / {t99:.3f}",
        f"{np.percentile(np.abs(itl), 99):.3f}",
        ",".join(said["outcomes"]),
    )


def synchronous(folder: Path, streams: int, repeats: int, realtime: bool) -> None:
    """The C client and ours by turns, in a closed loop whose answers all end in one step of the engine.

    How late what follows leaves, from the kernel's stamp of an answer's last token.
    """
    for _ in range(repeats):
        with truth(folder, TTFT_US, ITL_US, realtime, STEP_US) as port:
            cpu_s = follow_in_c(folder, port, streams)
        rows, true = (read_rows(folder / name) for name in ("floor.rows", "truth.rows"))
        late = np.fromfile(folder / "floor.rows.late", np.int64) / 1e6
        show_ends("C, kernel stamps", streams, rows, true, late, cpu_s, "ok")
        with truth(folder, TTFT_US, ITL_US, realtime, STEP_US) as port:
            said = ours(folder, port, f"closed:{streams}:{ENDS * streams}", ENDS_TOKENS)
        rows, true = our_rows(folder), read_rows(folder / "truth.rows")
        late = np.array(said["late_ns"])[streams:] / 1e6  # the first ones are due at once
        show_ends("ours", streams, rows, true, late, said["cpu_s"], ",".join(said["outcomes"]))


def follow_in_c(folder: Path, port: str, streams: int) -> float:
    """The C client once in such a loop; its processor seconds."""
    words = [str(folder / "floor_client"), port, *map(str, (streams, ENDS * streams, ENDS_TOKENS, 1))]
    out = subprocess.run([*words, str(folder / "floor.rows")], capture_output=True, text=True, check=True).stdout
    return float(out.split()[0])


def show_ends(client: str, streams: int, rows: Rows, true: Rows, late: np.ndarray, cpu_s: float, outcomes: str) -> None:
    """One line of the table. A run of ours is invalid where it sends later than a tenth of the time to first token, at
    the median, p90 or p99."""
    ttft, real = (
        np.array([(one[number][1] - one[number][0]) / 1e6 for number in sorted(rows)]) for one in (rows, true)
    )
    waves = np.array([true[number][-1] for number in sorted(rows)]) / 1e6 // (STEP_US / 1e3)
    together = int(np.median(np.unique(waves, return_counts=True)[1]))
    from_due = np.sort(late) + np.sort(ttft[streams:])
    share = max(np.quantile(late, q) / np.quantile(from_due, q) for q in (0.5, 0.9, 0.99))
    t99, r99 = np.percentile(ttft, 99), np.percentile(real, 99)
    line(
        client,
        streams,
        together,
        " / ".join(f"{value:.3f}" for value in np.percentile(late, [50, 90, 99, 100])),
        f"{t99:.2f} ({r99:.2f}; {t99 - r99:+.2f})",
        "yes" if share <= 0.1 else f"no: {100 * share:.0f} %",
        f"{cpu_s * 1e6 / len(rows):.0f}",
        outcomes,
    )


def head(*names: str) -> None:
    """The head of a table."""
    line(*names)
    line(*["---"] * len(names))


def line(*cells: object) -> None:
    """One line of a table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="64,256,1000")
    parser.add_argument("--rates", default="40,400,3000")
    parser.add_argument("--ends", default="64,256", help="streams whose answers end in the same step")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--realtime", action="store_true", help="the server under SCHED_RR, on a core of its own")
    asked = parser.parse_args()
    if asked.realtime:
        leave_a_core()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        for streams in filter(None, asked.streams.split(",")):
            compare(folder, int(streams), asked.repeats, asked.realtime)
        rates = list(filter(None, asked.rates.split(",")))
        if rates:
            print("\nours, open loop, Poisson")
            head("requests/s", "requests x tokens", "lateness p50 / p99 / max ms", "KS of gaps", "CV of gaps (planned)",
                 "TTFT error p50 / p99 ms", "ITL error p99 ms", "outcomes")  # fmt: skip
        for rate in rates:
            lateness(folder, float(rate), asked.realtime)
        ends = list(filter(None, asked.ends.split(",")))
        if ends:
            print(f"\nclosed loop, answers of {ENDS_TOKENS} tokens that end in steps of {STEP_US / 1e3:g} ms")
            head("client", "streams", "end together", "lateness p50 / p90 / p99 / max ms", "TTFT p99 ms (the server's own; apart)", "valid",
                 "µs CPU/request", "outcomes")  # fmt: skip
        for streams in ends:
            synchronous(folder, int(streams), asked.repeats, asked.realtime)


if __name__ == "__main__":
    main()
