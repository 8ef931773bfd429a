"""Simulated runs from rows made by hand: a queue whose truth is known."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from twinlens.record.codec import encode
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.request import REQUEST_SCHEMA, Request
from twinlens.record.run import Run
from twinlens.record.store import create_run, end_run, open_rows, read_run, update_run
from twinlens.simulation.law import StepLaw, one
from twinlens.simulation.points.run_folder import simulated_of, write_run
from twinlens.simulation.rules import Rules
from twinlens.spec.study import RunSpec

LAW = one(0.010, 0.002)


def spec_of(rate: float = 8.0, *, seconds: float = 60.0, **point: Any) -> RunSpec:
    workload = {
        "kind": "inference", "model": "small", "arrival": {"kind": "poisson"},
        "input_tokens": {"kind": "fixed", "value": 64}, "output_tokens": {"kind": "fixed", "value": 16},
    }  # fmt: skip
    plain = {
        "name": "chat", "workload": workload, "point": {"precision": "bf16", "rate_per_s": rate} | point,
        "executor": {"kind": "vllm"}, "protocol": {"duration_s": seconds, "steady_s": 0.0, "repeats": 1},
    }  # fmt: skip
    return RunSpec.model_validate_json(json.dumps(plain))


def table(rate: float = 8.0, seconds: float = 60.0, step_s: float = 0.012) -> pa.Table:
    """Requests that never meet: 16 tokens a step apart."""
    random = np.random.default_rng(3)
    due = np.floor(np.cumsum(random.exponential(1 / rate, round(rate * seconds))) * 1e9).astype(int)
    rows = []
    for place, at in enumerate(due.tolist()):
        times = tuple(at + round((k + 1) * step_s * 1e9) for k in range(16))
        rows.append(asdict(Request(place, at, at, times, (1,) * 16, times[-1], 64, 16, asked_tokens=16)))
    return pa.Table.from_pylist(rows, schema=REQUEST_SCHEMA)


def simulated_run(parent: Path, law: StepLaw = LAW, rules: Rules | None = None, **more: Any) -> Run:
    spec = spec_of(**more)
    return write_run(parent, spec, [table(spec.point.rate_per_s or 1.0)], simulated_of(law, rules or Rules(), 0),
                     {"accelerator.product": "H100", "software.runtime.name": "simulated"})  # fmt: skip


def measured_run(parent: Path, rows: pa.Table, spec: RunSpec) -> Run:
    """The same rows as a run that somebody measured."""
    folder = create_run(parent, spec)
    update_run(folder, place="here", facts=encode(Facts(ExecutorRecord({}))))
    writer = open_rows(folder, spec)
    writer.add_table(rows)
    writer.close()
    end_run(folder, "finished", rows=writer.count)
    return read_run(folder)
