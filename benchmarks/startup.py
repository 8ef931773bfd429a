"""How long people wait: `twinlens --help`, and `twinlens show` of a run with a million rows and no summary."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import twinlens
from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.interleave import median_of
from twinlens.measurement.session import run_here
from twinlens.record.arrow import RowWriter
from twinlens.record.checksum import marks_path
from twinlens.record.request import REQUEST_SCHEMA
from twinlens.record.step import STEP_SCHEMA
from twinlens.record.store import create_run
from twinlens.spec.load import parse
from twinlens.units import SECONDS

HELP_S, SHOW_S = 0.25, 2.0
CHUNKS = 8
RATE_PER_S = 500.0
_SERVED = {"arrival": {"kind": "constant"}, "slo": {"ttft_s": 0.05, "tpot_s": 0.02, "quantile": 0.99}}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks startup", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rows-per-batch", type=int, default=1000, help="as a run writes them: five batches a second")
    parser.add_argument("--repeats", type=int, default=7)
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """CPU time of the help, wall time of the tables; each process is fresh."""
    compile_once()
    with watched() as seen, tempfile.TemporaryDirectory() as folder:
        helped = [_spent(["--help"])[1] for _ in range(options.repeats + 4)]
        found = [Finding("twinlens --help: CPU time", median_of(helped, "median", SECONDS), HELP_S)]
        for lens in ("inference", "training"):
            path = recorded(Path(folder), lens, options.rows, options.rows_per_batch)
            shown = [_shown(path) for _ in range(options.repeats)]
            what = f"twinlens show, {options.rows:,} {'requests of 8 chunks' if lens == 'inference' else 'steps'}"
            megabytes = sum(file.stat().st_size for file in path.glob("*.arrows")) / 1e6
            wall, cpu = (median_of([pair[i] for pair in shown], "median", SECONDS) for i in (0, 1))
            found += [
                Finding(f"{what}: wall time", wall, SHOW_S, note=f"{megabytes:.0f} MB of rows"),
                Finding(f"{what}: CPU time", cpu),
            ]
    return with_neighbours(found, seen), []


def compile_once() -> None:
    """Compile the program, as pip does where it is installed: else each process that follows compiles 300 files."""
    package = str(Path(twinlens.__file__).parent)
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True, env=as_installed())


def as_installed() -> dict[str, str]:
    """The environment in which a process reads and keeps bytecode, also where this one was told not to."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def recorded(parent: Path, lens: str, rows: int, per_batch: int) -> Path:
    """A finished run folder, whole but for its summary: facts of the fake executor, rows made here.

    `lens`: training, inference (in lockstep), or served: inference by a schedule with an SLO, eight requests at once.
    """
    shape: dict[str, Any] = {"kind": "training" if lens == "training" else "inference", "model": "tiny"}
    shape |= {"global_batch": 4, "seq_len": 64} if lens == "training" else {}
    shape |= _SERVED if lens == "served" else {}
    data = {
        "name": "million",
        "executor": {"kind": "fake"},
        "workload": shape,
        **({"point": {"rate_per_s": RATE_PER_S}} if lens == "served" else {}),
        "protocol": {"duration_s": 0.01, "steady_s": 0.0, "min_rows": 1, "extend": 0, "isolate": False},
    }
    spec = parse(data).runs()[0]
    folder = create_run(parent, spec)
    run_here(folder, spec, lambda phrase, share, count: None)
    name, schema = ("steps", STEP_SCHEMA) if lens == "training" else ("requests", REQUEST_SCHEMA)
    columns = _steps(rows) if lens == "training" else _served(rows) if lens == "served" else _requests(rows)
    columns = {field.name: pa.nulls(rows, field.type) for field in schema} | columns
    path = folder / f"{name}.arrows"
    for file in (path, marks_path(path)):
        file.unlink(missing_ok=True)
    with RowWriter(path, schema) as writer:  # with checksums, as a run writes them
        for batch in pa.table(columns, schema=schema).to_batches(max_chunksize=per_batch):
            writer.add_table(pa.Table.from_batches([batch]))
    return folder


def _requests(rows: int) -> dict[str, Any]:
    """One after another."""
    gaps_ns = _gaps_ns(rows)
    lasted_ns = gaps_ns.sum(axis=1)
    return _columns(np.cumsum(lasted_ns) - lasted_ns, gaps_ns)


def _served(rows: int) -> dict[str, Any]:
    """At even times, whether those before have ended or not."""
    return _columns((np.arange(rows) * (1e9 / RATE_PER_S)).astype(np.int64), _gaps_ns(rows))


def _gaps_ns(rows: int) -> np.ndarray:
    """Times between one chunk of a request and the next, and before its first and after its last [rows, CHUNKS + 1]."""
    return np.random.default_rng(0).lognormal(np.log(2e6), 0.1, (rows, CHUNKS + 1)).astype(np.int64)


def _columns(begin_ns: np.ndarray, gaps_ns: np.ndarray) -> dict[str, Any]:
    rows = len(begin_ns)
    times = begin_ns[:, None] + np.cumsum(gaps_ns[:, :CHUNKS], axis=1)
    offsets = np.arange(0, rows * CHUNKS + 1, CHUNKS, dtype=np.int32)
    return {
        "group": np.arange(rows),
        "intended_ns": begin_ns,
        "sent_ns": begin_ns + 1000,
        "chunk_ns": pa.ListArray.from_arrays(offsets, times.ravel()),
        "chunk_tokens": pa.ListArray.from_arrays(offsets, np.ones(rows * CHUNKS, dtype=np.int32)),
        "end_ns": times[:, -1],
        "input_tokens": np.full(rows, 256),
        "output_tokens": np.full(rows, CHUNKS),
        "outcome": np.full(rows, "ok"),
    }


def _steps(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    lasted_ns = rng.lognormal(np.log(5e6), 0.05, rows).astype(np.int64)
    end_ns = np.cumsum(lasted_ns)
    shares = {"data_ns": 0.05, "forward_ns": 0.3, "backward_ns": 0.55, "optimize_ns": 0.1}
    columns: dict[str, Any] = {name: (lasted_ns * share).astype(np.int64) for name, share in shares.items()}
    return columns | {
        "kind": np.full(rows, "step"),
        "begin_ns": end_ns - lasted_ns,
        "communicate_ns": pa.nulls(rows, pa.int64()),
        "end_ns": end_ns,
        "samples": np.full(rows, 4),
        "tokens": np.full(rows, 256),
        "loss": 2 + 4 * np.exp(-np.arange(rows) / 1e5),
        "tag": pa.nulls(rows, pa.string()),
    }


def _shown(folder: Path) -> tuple[float, float]:
    (folder / "summary.json").unlink(missing_ok=True)
    return _spent(["show", str(folder)])


def _spent(words: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a fresh process, its start included."""
    program = Path(sys.executable).with_name("twinlens")
    before, begin_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([program, *words], stdout=subprocess.DEVNULL, check=True, env=as_installed())
    wall_s, after = time.perf_counter() - begin_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
