"""The executor's own facts, completed by those of the machine, the measuring layer, and theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twinlens.executors.capabilities import is_as_shipped
from twinlens.executors.registry import capabilities, executor, place_of
from twinlens.measurement.facts.predicted_bubble import predicted_bubble
from twinlens.measurement.facts.predicted_memory import predicted_memory
from twinlens.measurement.facts.predicted_work import (
    clocked,
    coverage_of,
    datasheet_of,
    theory_of,
    within_datasheet,
)
from twinlens.measurement.facts.provenance import provenance
from twinlens.measurement.machine.energy import energy_facts, open_meters
from twinlens.measurement.machine.host import capture_host
from twinlens.measurement.machine.software import software_facts
from twinlens.measurement.server.shared import stack_of
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.sections import Running
from twinlens.spec.study import RunSpec
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
