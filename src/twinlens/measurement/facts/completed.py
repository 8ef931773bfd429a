"""The executor's own facts, completed by those of the machine, the measuring layer, and theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from twinlens.executors.capabilities import is_as_shipped
from twinlens.executors.protocol import Exchanger, Server, Trainer
from twinlens.executors.registry import capabilities, distribution_of, executor, place_of
from twinlens.measurement.facts.predicted_memory import predicted_memory
from twinlens.measurement.facts.predicted_work import (
    clocked,
    coverage_of,
    datasheet_of,
    predicted_bubble,
    theory_of,
    within_datasheet,
)
from twinlens.measurement.facts.provenance import provenance
from twinlens.measurement.machine.energy import energy_facts, open_meters
from twinlens.measurement.machine.host import capture_host
from twinlens.measurement.machine.software import software_facts
from twinlens.measurement.server.shared import stack_of
from twinlens.record.arrow import read_rows
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, declared, unknown
from twinlens.record.samples import SERVER_SCHEMA
from twinlens.record.sections import Running
from twinlens.spec.study import RunSpec
from twinlens.stats.server.agreement import ServerRows
from twinlens.system.nvml import open_gpus
from twinlens.system.processes import tree

_BOARD = ("accelerator.product", "accelerator.memory_bytes", "accelerator.architecture", "accelerator.partition")


def _as_found(spec: RunSpec, record: ExecutorRecord) -> Mapping[str, str]:
    """Formats of weights and cache that a runtime took by itself, for the bytes that theory counts."""
    if not is_as_shipped(spec):
        return {}
    return {each: str(record.value(f"precision.{each}")) for each in ("weights", "kv")}


def completed(facts: Facts, spec: RunSpec, running: Running | None, pids: Sequence[int] = ()) -> Facts:
    """The executor's own facts, with the host's, the measuring layer's and what theory says of the work. `pids`: the
    first processes of an executor that has some of its own."""
    place = place_of(spec)
    if place == "recorded":
        return facts  # the machine is the recorded one, not this one
    if place == "elsewhere":
        # Where that server runs is its own to say: this machine is only the client's.
        return replace(facts, executor=ExecutorRecord(provenance(spec, facts)).merged(facts.executor))
    if running is not None:
        facts = replace(facts, executor=facts.executor.merged(stack_of(running, spec)))
    # A run on a GPU that cannot be named is still none on the processor: its facts are unknown, and so is its energy.
    on_gpu, used = "accelerator.uuid" in facts.executor.facts, facts.executor.value("accelerator.uuid") or ()
    ours = [pid for first in ((running.pid,) if running is not None else pids) for pid in tree(first)]
    host = capture_host("cuda" if on_gpu else "cpu", used, ours, in_use=True)
    meters = open_meters(open_gpus(used)[0] if used else (), boards=used)
    power = energy_facts(meters, "gpu" if on_gpu else "package")
    if capabilities(spec.executor.kind).runs == "recorded":  # what the user's command trains, and in which Python
        board = {key: host[key] for key in _BOARD if on_gpu and key in host and host[key].value is not None}
        return replace(facts, executor=ExecutorRecord(host | power).merged(facts.executor).merged(board))
    software = software_facts() if running is None else {}  # a launched server has a Python of its own
    record = ExecutorRecord(host | software | power | provenance(spec, facts)).merged(facts.executor)
    # The driver's own word on a board goes before the framework's, which stands in where there is no NVML.
    record = record.merged({key: host[key] for key in _BOARD if on_gpu and key in host and host[key].value is not None})
    boards = len(used) if on_gpu and executor(spec.executor.kind).degrees is not None else 1
    sheet = datasheet_of(record.value("accelerator.product"), spec.precision, boards)
    modelled = theory_of(spec, record.value("precision.head"), _as_found(spec, record))
    work = modelled | predicted_bubble(spec) | facts.work
    most = sheet or clocked(record.value("accelerator.memory_bytes_per_s_spec"), boards)
    ceilings = within_datasheet(facts.ceilings, most) | sheet
    memory = facts.memory | predicted_memory(spec)
    return replace(facts, executor=record, work=work | coverage_of(work), ceilings=ceilings, memory=memory)


def marked(facts: Facts, spec: RunSpec, executor: Trainer | Server | Exchanger) -> Facts:
    """The same facts, with the plug-in named in the source of each that it says; those of our own classes unchanged."""
    if type(executor).__module__.startswith("twinlens."):
        return facts
    who = distribution_of(spec.executor.kind)
    fields = {key: _with_source(fact, who) for key, fact in facts.executor.facts.items()}
    checks = tuple(replace(check, evidence=f"said by the plug-in {who}: {check.evidence}") for check in facts.precision)
    return replace(facts, executor=ExecutorRecord(fields), precision=checks)


def _with_source(fact: Fact, who: str) -> Fact:
    return fact if fact.value is None else replace(fact, source=f"said by the plug-in {who}: {fact.source}")


_HITS, _LOOKED_UP = "prefix_hits", "prefix_queries"


def seen_afterwards(folder: Path, facts: Facts) -> dict[str, Fact]:
    """Facts to put into the record once the rows are there; empty for a run that no server page belongs to."""
    fact = facts.executor.facts.get("decoding.cache_hit_ratio")
    if fact is None or fact.value is not None or not (folder / "server.arrows").exists():
        return {}
    samples = read_rows(folder / "server.arrows", SERVER_SCHEMA)
    return {"decoding.cache_hit_ratio": _hit_ratio(ServerRows.from_table(samples), facts)}


def _hit_ratio(rows: ServerRows, facts: Facts) -> Fact:
    why = rows.why_not(_HITS, _LOOKED_UP)
    if why is None:
        hits, looked_up = (float(steps.sum()) for steps in rows.steps(_HITS, _LOOKED_UP))
        if looked_up > 0:
            return declared(round(hits / looked_up, 4), "the server's counters of cached and looked up prompt tokens")
        why = "the server looked nothing up in a cache"
    if facts.executor.value("serving.prefix_cache") is False:
        return declared(0.0, "the server says that its prefix cache is off")
    return unknown(f"cached prompt tokens: {why}")
