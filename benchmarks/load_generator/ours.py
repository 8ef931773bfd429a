# ruff: noqa: E402 - what is loaded first matters
"""Our client in a process of its own, as a run has it: rows to disk, stamps, lag, everything. Prints one JSON line."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from twinlens.record.codec import encode
from twinlens.system.processes import load_numpy

load_numpy()  # as every process of a run does first

import numpy as np

from twinlens.executors.openai.executor import OpenAIServer
from twinlens.record.arrow import RowWriter
from twinlens.record.request import REQUEST_SCHEMA, Request
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.open_loop import OpenLoop, arrival_times_ns
from twinlens.schedule.plan import Plan
from twinlens.schedule.request import Schedule
from twinlens.spec.load import parse
from twinlens.spec.workload.arrival import Poisson

PROMPT_TOKENS = 128


def main(port: str, load: str, tokens: str, folder: str, stamps: str) -> None:
    """`load`: closed:STREAMS:REQUESTS or open:RATE:SECONDS."""
    options = {"url": f"http://127.0.0.1:{port}/v1", "kernel_stamps": stamps == "1"}
    data: dict[str, Any] = {
        "executor": {"kind": "openai-http", "options": options},
        "workload": {"kind": "inference", "model": "tiny"},
    }
    spec = parse(data).runs()[0]
    server = OpenAIServer()
    server.open(spec, lambda phrase: None)
    path = Path(folder)
    schedule = schedule_of(load, int(tokens))
    kept: list[tuple[int, str, np.ndarray]] = []  # as small as it can be: this is the benchmark's memory, not ours
    with RowWriter(path / "ours.arrows", REQUEST_SCHEMA) as rows:

        def take(row: Request) -> None:
            rows.add(row)
            if len(kept) < 20_000:
                times = np.array([row.sent_ns, *row.chunk_ns, row.intended_ns])
                kept.append((row.input_tokens, row.outcome, times))

        before, begin_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        server.play(schedule, take)
        used, wall_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - begin_s
    np.save(path / "ours_numbers.npy", np.array([number for number, _, _ in kept]))
    np.savez(path / "ours_chunks.npz", *[times[:-1] for _, _, times in kept])
    start_s = before.ru_utime + before.ru_stime
    print(
        json.dumps(
            {
                "cpu_s": used.ru_utime + used.ru_stime - start_s,
                "start_cpu_s": start_s,
                "wall_s": wall_s,
                "peak_kib": used.ru_maxrss,
                "requests": rows.count,
                "outcomes": sorted({outcome for _, outcome, _ in kept}),
                "late_ns": [int(times[0] - times[-1]) for _, _, times in kept],
                "intended_ns": [int(times[-1]) for _, _, times in kept],
                "sent_ns": [int(times[0]) for _, _, times in kept],
                "client": encode(server.network_client.client()),
            }
        )
    )
    server.close()


def schedule_of(load: str, tokens: int) -> Schedule:
    """The schedule a word stands for."""
    kind, first, second = load.split(":")
    if kind == "closed":
        return ClosedLoop(int(first), plan(np.zeros(int(second), np.int64), tokens))
    return OpenLoop(plan(arrival_times_ns(Poisson(kind="poisson"), float(first), float(second), 3), tokens))


def plan(times_ns: np.ndarray, tokens: int) -> Plan:
    """Asks of one size."""
    count = len(times_ns)
    return Plan(7, times_ns, np.full(count, PROMPT_TOKENS), np.full(count, tokens))


if __name__ == "__main__":
    main(*sys.argv[1:])
