"""How much memory does a simulation take whose rows are written as requests end?

Each line is a process of its own: Poisson arrivals in parts of 2,000, served by one engine with all token times, each
part written to an Arrow stream. The peak is the resident memory of the process, less what it had before the first part.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.simulator.speed import LAW
from twinlens.record.arrow import RowWriter
from twinlens.record.request import REQUEST_SCHEMA
from twinlens.schedule.plan import Plan
from twinlens.simulation.parts import serve_in_parts
from twinlens.simulation.points.play import rows_of_served
from twinlens.simulation.rules import Rules
from twinlens.simulation.work import Work

PAGE = Path("docs/results/simulator-memory.md")
PART, RATE_PER_S = 2_000, 20.0


def arrivals(requests: int) -> Iterator[Work]:
    """Prompts of up to 500 tokens, geometric answers of 200, in parts."""
    random, last_s = np.random.default_rng(0), 0.0
    for begin in range(0, requests, PART):
        count = min(PART, requests - begin)
        arrival_s = last_s + np.cumsum(random.exponential(1 / RATE_PER_S, count))
        last_s = float(arrival_s[-1])
        yield Work(arrival_s, random.integers(1, 500, count), random.geometric(1 / 200, count))


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _measure(pipe: Connection, requests: int) -> None:
    kept: dict[int, tuple[int, int, int]] = {}
    came = 0

    def seen() -> Iterator[Work]:
        nonlocal came
        for work in arrivals(requests):
            due_ns = (work.arrival_s * 1e9).astype(np.int64).tolist()
            rows = zip(due_ns, work.prompt_tokens.tolist(), work.output_tokens.tolist(), strict=True)
            kept.update(enumerate(rows, came))
            came += len(work)
            yield work

    with tempfile.TemporaryDirectory() as folder:
        writer = RowWriter(Path(folder) / "requests.arrows", REQUEST_SCHEMA)
        before, begin_s = _peak_bytes(), time.process_time()
        for part in serve_in_parts(seen(), LAW, Rules()):
            columns = np.array([kept.pop(each) for each in part.place.tolist()], dtype=np.int64).reshape(-1, 3)
            writer.add_table(rows_of_served(Plan(0, *columns.T.copy()), part.place, part.served, LAW, None))
        writer.close()
        pipe.send((_peak_bytes() - before, time.process_time() - begin_s, writer.count))


def row(requests: int) -> str:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_measure, args=(theirs, requests))
    process.start()
    grown_bytes, cpu_s, count = ours.recv()
    process.join()
    assert count == requests
    return f"| {requests:,} | {grown_bytes / 1e6:.0f} | {requests / cpu_s:,.0f} |"


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m benchmarks.simulator.memory", description=__doc__)
    asked.add_argument("requests", type=int, nargs="*", default=[30_000, 100_000, 1_000_000])
    asked.add_argument("--save", action="store_true", help=f"write {PAGE}")
    options = asked.parse_args()
    lines = []
    for requests in options.requests:
        lines.append(row(requests))
        print(lines[-1], flush=True)
    if options.save:
        PAGE.write_text("\n".join([
            "# Memory of the simulator", "", (__doc__ or "").strip(), "",
            f"`python -m benchmarks.simulator.memory --save`, on {date.today()}.", "",
            "| requests | MB more at its peak | requests per CPU s, rows written |", "|--:|--:|--:|", *lines, "",
        ]))  # fmt: skip


if __name__ == "__main__":
    main()
