"""A simulated run as a run folder: the rows of a measured one, and who it stands on where a machine would be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from twinlens.record.codec import encode
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, declared
from twinlens.record.run import Run
from twinlens.record.sections import Simulated
from twinlens.record.store import create_run, end_run, open_rows, read_run, update_run
from twinlens.simulation.law import StepLaw
from twinlens.simulation.rules import READ_FROM, Rules
from twinlens.spec.study import RunSpec

NOT_MODELLED = (
    "graphs captured by batch size",
    "the network and the client",
    "answers that end early",
    "a KV cache on the host",
    "grammars, adapters and images",
    "the block of KV cache that vLLM keeps for itself",
    "drafts accepted in bursts: an answer's tokens are spread evenly over its steps",
)
"""What a real server has and this one lacks, most telling first."""
_FILE = "simulation/points/run_folder.py"


def simulated_of(law: StepLaw, rules: Rules, seed: int, horizon_s: float | None = None) -> Simulated:
    """What a run stands on, as its folder keeps it. `horizon_s`: where it was stopped with requests under way."""
    plain = {name: value for name, value in encode(law).items() if name not in ("origin", "source")}
    return Simulated(law.origin, law.source, READ_FROM, plain, changed(rules), seed, NOT_MODELLED, horizon_s)


def changed(rules: Rules) -> dict[str, Any]:
    """The rules that are not as shipped, by the engine's flag."""
    shipped = Rules()
    return {
        each.name: value
        for each in fields(rules)
        if (value := getattr(rules, each.name)) != getattr(shipped, each.name)
    }


def write_run(
    parent: Path, spec: RunSpec, tables: Iterable[pa.Table], simulated: Simulated, facts: Mapping[str, Any],
    **sections: Any,
) -> Run:  # fmt: skip
    """Write a run folder under `parent`, and read it back. `tables`: its rows, each written before the next is asked
    for. `facts`: declared values by executor field; `sections`: more of run.json, each a value of `Sections`."""
    folder = create_run(parent, spec)
    record = ExecutorRecord({name: declared(value, _FILE) for name, value in facts.items()})
    update_run(folder, place="simulated", simulated=encode(simulated), facts=encode(Facts(record)), **encode(sections))
    rows = open_rows(folder, spec)
    try:
        for table in tables:
            rows.add_table(table)
    finally:
        rows.close()
    end_run(folder, "finished", rows=rows.count)
    return read_run(folder)
