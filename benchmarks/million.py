"""Processor time of `twinlens compare` and `twinlens diagnose` of runs of a million rows without a summary.

The two verbs and reading the rows alone take turns, each in a fresh process, so that a neighbour meets all of them.
`KINDS`: training steps, requests served by a schedule with an SLO (chunks: 8 each), and, where asked, in lockstep.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import median_of
from benchmarks.startup import as_installed, compile_once, recorded
from twinlens.units import SECONDS

TARGET_S = 3.0
KINDS = ("served", "training", "inference")
_READ = (
    "import sys; from pathlib import Path; from twinlens.record.store import read_run; "
    "runs = [read_run(Path(each)) for each in sys.argv[1:]]; "
    "[run.requests if run.lens == 'inference' else run.steps for run in runs]"
)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks million", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rows-per-batch", type=int, default=1000, help="as a run writes them: five batches a second")
    parser.add_argument("--repeats", type=int, default=1, help="turns; of one there is no interval")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["served", "training"])
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """Seconds of CPU and of wall time of each verb, start of the process included."""
    found = []
    compile_once()
    with watched() as seen, tempfile.TemporaryDirectory() as folder:
        for lens in options.kinds:
            pair = [
                recorded(_made(Path(folder) / f"{lens}-{each}"), lens, options.rows, options.rows_per_batch)
                for each in "ab"
            ]
            commands = _commands(*pair)
            spent: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
            for turn in range(options.repeats):
                for name in list(commands)[:: 1 if turn % 2 else -1]:
                    for each in pair:
                        (each / "summary.json").unlink(missing_ok=True)
                    spent[name].append(_spent(commands[name]))
            for name, pairs in spent.items():
                target = None if name.startswith("reading") else TARGET_S
                wall, cpu = (median_of([each[i] for each in pairs], "median", SECONDS) for i in (0, 1))
                what = f"{name}, {options.rows:,} rows, {lens}"
                found += [Finding(f"{what}: CPU time", cpu, target), Finding(f"{what}: wall time", wall)]
    return with_neighbours(found, seen), []


def _commands(a: Path, b: Path) -> dict[str, list[str]]:
    program = str(Path(sys.executable).with_name("twinlens"))
    return {
        "compare of two": [program, "compare", str(a), str(b)],
        "reading two alone": [sys.executable, "-c", _READ, str(a), str(b)],
        "diagnose of one": [program, "diagnose", str(a)],
    }


def _spent(command: Sequence[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a fresh process, its start included."""
    before, begin_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=as_installed())
    wall_s, after = time.perf_counter() - begin_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
