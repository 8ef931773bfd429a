"""Processor time of `twinlens compare` and `twinlens diagnose` of runs of a million rows without a summary.

The two verbs and reading the rows alone take turns, each in a fresh process, so that a neighbour meets all of them.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import median_of
from benchmarks.startup import recorded
from twinlens.units import SECONDS

TARGET_S = 3.0
_READ = (
    "import sys; from pathlib import Path; from twinlens.record.store import read_run; "
    "runs = [read_run(Path(each)) for each in sys.argv[1:]]; "
    "[run.requests if run.lens == 'inference' else run.steps for run in runs]"
)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks million", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rows-per-batch", type=int, default=1000, help="as a run writes them: five batches a second")
    parser.add_argument("--repeats", type=int, default=5)
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Seconds of CPU of each verb, start of the process included."""
    found = []
    with watched() as seen, tempfile.TemporaryDirectory() as folder:
        for lens in ("inference", "training"):
            pair = [
                recorded(_made(Path(folder) / f"{lens}-{each}"), lens, options.rows, options.rows_per_batch)
                for each in "ab"
            ]
            commands = _commands(*pair)
            spent: dict[str, list[float]] = {name: [] for name in commands}
            for turn in range(options.repeats):
                for name in list(commands)[:: 1 if turn % 2 else -1]:
                    for each in pair:
                        (each / "summary.json").unlink(missing_ok=True)
                    spent[name].append(_cpu_s(commands[name]))
            for name, seconds in spent.items():
                target = None if name.startswith("reading") else TARGET_S
                found.append(
                    Finding(f"{name}, {options.rows:,} rows of {lens}", median_of(seconds, "median", SECONDS), target)
                )
    return with_neighbours(found, seen), []


def _commands(a: Path, b: Path) -> dict[str, list[str]]:
    program = str(Path(sys.executable).with_name("twinlens"))
    return {
        "compare of two": [program, "compare", str(a), str(b)],
        "reading two alone": [sys.executable, "-c", _READ, str(a), str(b)],
        "diagnose of one": [program, "diagnose", str(a)],
        "reading one alone": [sys.executable, "-c", _READ, str(a)],
    }


def _cpu_s(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
