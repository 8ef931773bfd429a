"""How long people wait from typing `twinlens measure --url` to the first row, by what the screen says meanwhile."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time

import psutil

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import median_of
from twinlens.network.null_server import null_server
from twinlens.units import SECONDS

WAIT_S = 6.0
_TTFT_S, _ITL_S = 0.02, 0.005
STAGES = (
    ("the server's name is on the screen", " at http"),
    ("a worker asks for the server's facts", "reading the server's facts"),
    ("the client is being calibrated", "calibrating the client"),
    ("the first row is there", "measuring"),
)
"""What is waited for, and the words on stderr that say it."""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks first_request", description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Wall time until each stage, and CPU time of all processes until the last; each command is fresh."""
    with watched() as seen:
        waits = [_waited() for _ in range(options.repeats + 1)][1:]  # the first reads the files from disk
    found = [
        Finding(
            f"until {what}: wall time",
            median_of([wait[place][0] for wait in waits], "median", SECONDS),
            WAIT_S if place == len(STAGES) - 1 else None,
        )
        for place, (what, _) in enumerate(STAGES)
    ]
    found += [
        Finding(f"until {what}: CPU time", median_of([wait[place][1] for wait in waits], "median", SECONDS))
        for place, (what, _) in enumerate(STAGES)
    ]
    return with_neighbours(found, seen), []


def _waited() -> list[tuple[float, float]]:
    """Seconds of wall and of CPU from the start of the command to each stage.

    Raises RuntimeError where a stage is never said.
    """
    with null_server(_TTFT_S, _ITL_S, life_s=120.0) as server, tempfile.TemporaryDirectory() as folder:
        load = ["--at", "concurrency=1", "--set", "protocol.duration_s=1", "--set", "protocol.steady_s=0"]
        load += ["--set", "workload.output_tokens.value=4", "--set", "protocol.retakes=0", "--out", folder]
        begin_s = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-m", "twinlens", "measure", "--url", server.url, *load],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        ) as client:  # fmt: skip
            assert client.stderr is not None
            waits: list[tuple[float, float]] = []
            for line in client.stderr:
                if len(waits) < len(STAGES) and STAGES[len(waits)][1] in line:
                    waits.append((time.monotonic() - begin_s, _cpu_s(client.pid)))
    if len(waits) < len(STAGES):
        raise RuntimeError(f"the command never said {STAGES[len(waits)][1]!r}")
    return waits


def _cpu_s(pid: int) -> float:
    """CPU time of a process and of its children, those that ended included."""
    first = psutil.Process(pid)
    spent = first.cpu_times()
    return sum(sum(process.cpu_times()[:2]) for process in [first, *first.children(recursive=True)]) + (
        spent.children_user + spent.children_system
    )
