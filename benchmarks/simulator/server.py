"""A simulated server: how late its tokens are at its client, and its processor time per token.

    python -m benchmarks.simulator.server [REQUESTS]

The server runs in a process of its own. Each round sends so many requests at once through our own client, for an engine
with a step of 20 ms; the lag of a token is its arrival (the kernel's stamp) behind the first one of its step.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection

import numpy as np

from twinlens.executors.openai.executor import OpenAIServer
from twinlens.record.request import Request
from twinlens.schedule.open_loop import OpenLoop
from twinlens.schedule.request import ScheduledRequest
from twinlens.simulation.law import one
from twinlens.simulation.rules import Rules
from twinlens.simulation.server.entry import Settings, serve_openai
from twinlens.spec.load import load

STEP_S, TOKENS = 0.02, 200


def _serve(pipe: Connection) -> None:
    def started(url: str) -> None:
        pipe.send((url, sum(os.times()[:2])))

    told = serve_openai(one(STEP_S), Rules(max_num_seqs=512), Settings(port=0), started=started)
    pipe.send((told, sum(os.times()[:2])))


def measured(requests: int) -> str:
    """One row: requests, CPU per token, lag at the server, spread of a step at the client, length of steps."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,))
    process.start()
    url, before_s = ours.recv()
    rows: list[Request] = []
    server = OpenAIServer()
    spec = load("attached", [f'executor.options={{url="{url}"}}']).point_runs()[0]
    server.open(spec, lambda phrase: None)
    server.network_client.play(
        OpenLoop([ScheduledRequest(i, i, 0, 16, TOKENS, (3, 0, i)) for i in range(requests)]), rows.append
    )
    server.close()
    os.kill(process.pid or 0, 2)
    told, after_s = ours.recv()
    process.join()
    times = np.sort(np.concatenate([row.chunk_ns for row in rows])) / 1e9
    steps = np.round(times / STEP_S - np.median(times / STEP_S % 1))
    groups = [times[steps == each] for each in np.unique(steps)]
    spread_s = np.concatenate([group - group[0] for group in groups])
    ends_s = np.array([group[0] for group in groups])
    between_s = np.diff(ends_s[ends_s < ends_s[0] + 0.9 * TOKENS * STEP_S])
    cpu_us = 1e6 * (after_s - before_s) / told.writes
    return (
        f"| {requests} | {cpu_us:.0f} | {1e3 * (told.mean_lag_s or 0):.2f} / {1e3 * (told.most_lag_s or 0):.1f} | "
        f"{1e3 * np.quantile(spread_s, 0.5):.2f} / {1e3 * np.quantile(spread_s, 0.99):.1f} | "
        f"{1e3 * between_s.mean():.3f} |"
    )


def main() -> None:
    print("| requests at once | server CPU µs/token | lag ms, mean / most | within a step ms, p50 / p99 | step ms |")
    print("|--:|--:|--:|--:|--:|")
    for requests in map(int, sys.argv[1:] or ("1", "16", "64", "128")):
        print(measured(requests), flush=True)


if __name__ == "__main__":
    main()
