"""The summary of a run from its rows: every metric, and the verdict on steadiness. Pure; rebuilt at will."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from twinlens.record.codec import decode, encode
from twinlens.record.estimate import Estimate, spreads_from_json, spreads_to_json
from twinlens.record.executor.record import FIELDS, ExecutorRecord
from twinlens.record.run import Run
from twinlens.record.sections import Running
from twinlens.spec.point import Point
from twinlens.spec.precision import AS_SERVED
from twinlens.spec.study import ExecutorSpec
from twinlens.stats.finding.checks import Seen, findings
from twinlens.stats.metrics.energy import EnergyScope, energy, energy_of_training, peak_memory
from twinlens.stats.metrics.fidelity import fidelity_gate
from twinlens.stats.row_kind import row_kind
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.summary.group import Machine, Summary
from twinlens.stats.summary.point import provisional
from twinlens.units import BYTES, RATIO, SECONDS

SUMMARY_SCHEMA = 9


def summarise(run: Run) -> Summary:
    """The summary of a run in any state, with or without rows."""
    kind = row_kind(run)
    came_to = kind.judged(run, SteadyRule(min_seconds=run.spec.protocol.steady_s))
    metrics, verdict = came_to.metrics, came_to.verdict
    metrics["peak_bytes"] = (
        Estimate.absent(BYTES, "nothing ran, so nothing was held in memory")
        if run.place == "simulated"
        else Estimate.absent(BYTES, "the memory of a server cannot be seen from its client")
        if _is_attached(run)
        else Estimate.absent(BYTES, "some ranks are on other nodes, whose memory is not sampled here")
        if _nodes(run) > 1 and run.sections.device_memory is None
        else Estimate.absent(BYTES, said)
        if (said := _said_of_one_gpu(run, "allocated_bytes", "reserved_bytes"))
        else peak_memory(
            run.telemetry,
            is_server=run.sections.server is not None,
            of_ranks=kind.by_ranks and "server" in run.telemetry.column("source").unique().to_pylist(),
            on_gpu=energy_scope(run) == "gpu",
            allocator=run.sections.device_memory,
        )
    )
    metrics |= startup(run)
    is_charged = not _is_attached(run) and _nodes(run) == 1
    energy_rows = run.telemetry if is_charged else run.telemetry.slice(0, 0)
    has_rows = run.table.num_rows > 0
    # A counter goes on counting through the turns of other points, and through what the rate leaves out.
    turns = kind.turns(run) if run.sections.pairing and has_rows else []
    aside = kind.aside(run) if has_rows else []
    why_no_energy, scope = _why_no_energy(run), energy_scope(run)
    metrics |= energy(energy_rows, verdict.begin_s, verdict.end_s, came_to.work, why_no_energy, scope, aside, turns)
    if run.lens == "training" and has_rows:
        span_s = float(run.steps.begin_ns[0]) / 1e9, float(run.steps.end_ns[-1]) / 1e9
        to_target_s, is_finished = metrics.get("time_to_target_s"), run.state == "finished"
        metrics |= energy_of_training(
            energy_rows, span_s, to_target_s, why_no_energy, scope, is_finished=is_finished, turns=turns
        )
    if run.sections.simulated is not None:
        metrics = {name: replace(each, origin="simulated") for name, each in metrics.items()}
    compared = fidelity_gate(metrics, run.spec.protocol.tolerance) if run.lens == "inference" else None
    summary = Summary(
        run=run.id,
        lens=run.lens,
        state=run.state,
        model=model_of(run),
        executor=_executor(run),
        point=kind.point(
            run, run.spec.point.model_dump(mode="json", exclude_none=True) | {"precision": precision_of(run)}
        ),
        repeat=run.spec.repeat,
        rows=run.table.num_rows,
        verdict=verdict,
        metrics=metrics,
        gate=compared,
        notes=run.facts.notes if run.facts else (),
        identity=_identity(run),
        asked=_asked_hash(run),
        machine=machine_of(run),
        findings=findings(Seen(run, metrics, verdict, came_to.client, compared, came_to.server)),
        error=run.error,
        attempt=run.sections.attempt,
        greedy=run.sections.greedy,
        options=_switches(run),
        settings=_settings(run.spec.executor),
    )
    wide = provisional(metrics, summary.validity, verdict.least_visible_change, summary.point)
    return replace(summary, metrics=wide)


def to_json(summary: Summary) -> dict[str, Any]:
    """A summary as plain data, schema first."""
    spreads = spreads_to_json({name: each.spread for name, each in summary.metrics.items() if each.spread})
    return {"schema": SUMMARY_SCHEMA} | encode(summary) | {"validity": summary.validity, "spreads": spreads}


def from_json(data: dict[str, Any]) -> Summary:
    """The inverse of `to_json`; one of before findings were made has none. Raises ValueError otherwise."""
    summary, spreads = decode(Summary, data), spreads_from_json(data.get("spreads", {}))
    return replace(
        summary, metrics={name: replace(each, spread=spreads.get(name)) for name, each in summary.metrics.items()}
    )


def _nodes(run: Run) -> int:
    known = run.facts.executor.value("interconnect.node_count") if run.facts else None
    return known if isinstance(known, int) else 1


def _identity(run: Run) -> str:
    """The identity that repeats share: everything that was asked but the repeat and the name, and the executor's
    hash."""
    who = run.facts.executor.hash() if run.facts else "unknown"
    return hashlib.sha256(f"{_asked_text(run)}/{who}".encode()).hexdigest()[:12]


def _asked_hash(run: Run) -> str:
    return hashlib.sha256(_asked_text(run).encode()).hexdigest()[:12]


def _asked_text(run: Run) -> str:
    return json.dumps(run.spec.to_dict() | {"repeat": 0, "name": ""}, sort_keys=True)


def _is_attached(run: Run) -> bool:
    """Whether it asked a server that somebody else had started: this machine is then its client's only."""
    return run.sections.client is not None and run.sections.server is None


def energy_scope(run: Run) -> EnergyScope | None:
    """The device that the run computed on, and is charged with: GPU boards, named or not, or else the processor."""
    if run.facts is None:
        return None
    return "gpu" if "accelerator.uuid" in run.facts.executor.facts else "package"


def _why_no_energy(run: Run) -> str:
    if run.place == "simulated":
        return "nothing ran, so nothing drew power"
    if _is_attached(run):
        return "the energy of a server cannot be read from its client"
    if (nodes := _nodes(run)) > 1:
        return f"the ranks are on {nodes} nodes, and the counters of one are read"
    if said := _said_of_one_gpu(run, "energy_j"):
        return said
    fact = run.facts.executor.facts.get("power.source") if run.facts else None
    if fact is None:
        return "the executor said nothing about energy counters"
    return fact.reason or fact.source


def _said_of_one_gpu(run: Run, *names: str) -> str:
    """The reason for no sum where a trainer's log says a figure of one GPU; "" where it does not."""
    facts = run.facts if run.place == "recorded" else None  # what runs here is sampled, and needs no word of the log
    read = next((each for each in facts.findings if each.code == "read-from-log"), None) if facts else None
    said = read.numbers.get("of_gpu") if read else None
    known = isinstance(said, Mapping) and any(name in said for name in names)
    return "the log says it of one GPU (see the finding) and not how many there are" if known else ""


def _switches(run: Run) -> dict[str, Any]:
    """The options of a launched server that one word or number says, without paths and what is as shipped."""
    asked = run.spec.executor.options if run.sections.server else {}
    plain = {name: value for name, value in asked.items() if isinstance(value, bool | int | float | str)}
    return {name: value for name, value in sorted(plain.items()) if value != "auto" and name not in ("python", "gguf")}


def _settings(asked: ExecutorSpec) -> dict[str, Any]:
    limit = {} if asked.power_limit_w is None else {"power_limit_w": asked.power_limit_w}
    return {"threads": asked.threads} | limit | asked.options


def _executor(run: Run) -> str:
    """The executor as tables name it: with a graph that is compiled, and with settings that are the runtime's own."""
    asked = run.spec.executor.options
    compiled = ", compiled" if asked.get("graph") == "compiled" else ""
    shipped = ", as shipped" if asked.get("settings") == "as-shipped" else ""
    virtual = ", simulated" if run.place == "simulated" else ""
    return f"{run.spec.executor.kind}{compiled}{shipped}{virtual}"


# The machine, model and precision of a run, and how long its start took.

# What is of the machine, by the groups of `record/executor/field.py`: accelerator, host and links. What an update, a
# setting or a container changes on it is its stack's: the same machine has another kernel tomorrow, and a server on one
# of two processors is on the same machine.
_HARDWARE = "AB"
_GIVEN = (
    "host.cpu.usable_threads", "host.cgroup.cpu_limit", "host.cgroup.memory_limit_bytes", "accelerator.count",
    "accelerator.firmware", "host.cpu.governor", "host.cpu.max_mhz", "host.storage", "host.os", "host.kernel",
    "host.container", "host.container_digest", "interconnect.collectives",
)  # fmt: skip
# What is of the software and not of the operating point: a sweep of precisions or graphs must not part a study.
_SOFTWARE = (
    "software.framework.name", "software.framework.version", "software.framework.build",
    "software.framework.threads", "software.framework.commit", "software.runtime.name", "software.runtime.version",
    "software.affinity", "software.driver.version", "software.toolkit.version", "software.python.version",
)  # fmt: skip


def machine_of(run: Run) -> Machine | None:
    """Where it ran; None where nobody wrote that down (a run that failed before it began)."""
    if run.facts is None:
        return None
    record, url = run.facts.executor, _attached(run)
    mine = [key for key in FIELDS if FIELDS[key].letter[0] in _HARDWARE and key not in _GIVEN]
    hardware = {"url": url} if url else _known(record, mine)
    if hardware.get("interconnect.node_count") == 1:  # ranks say so; a process without ranks says nothing
        del hardware["interconnect.node_count"]
    software = _known(record, (*_GIVEN, *_SOFTWARE)) | {
        "kind": run.spec.executor.kind,
        "graph": run.spec.executor.options.get("graph", "auto"),
    }
    if run.place == "simulated":
        hardware["simulated"] = "yes"
    return Machine(
        id=_hash(hardware),
        name=_in_virtual_time(record) if run.place == "simulated" else url or _name(record),
        stack=_hash(hardware | software),
        software=_software(record) or run.spec.executor.kind,
        is_attached=url is not None,
    )


def model_of(run: Run) -> str:
    """The model that was measured: that of the spec, or the name under which a server that was up already serves."""
    served = run.facts.executor.value("model.id") if run.facts and _attached(run) else None
    return str(served) if served else run.spec.workload.model


def precision_of(run: Run) -> str:
    """The precision of the spec. That of a server which was up already is nobody's choice here: unless the spec names

    one, it is as served. In runs of before, fp32 was the default of a spec: it stands where the server says so too.
    """
    asked = run.spec.point.precision
    if _attached(run) is None or asked != Point().precision:
        return asked
    served_as = run.facts.executor.value("precision.weights") if run.facts else None
    return asked if served_as in ("float32", "torch.float32", "fp32") else AS_SERVED.name


def _attached(run: Run) -> str | None:
    """The address of a server that somebody else started: the machine is its own, and not known."""
    url = run.spec.executor.options.get("url")
    if run.place != "elsewhere" or not isinstance(url, str):
        return None
    parts = urlsplit(url)  # a name and a password in it are nobody's to read
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def _known(record: ExecutorRecord, keys: Any) -> dict[str, Any]:
    return {key: record.value(key) for key in keys if FIELDS[key].identity and record.value(key) is not None}


def _name(record: ExecutorRecord) -> str:
    """ "AMD EPYC, 2 processors", "4 × NVIDIA H100"."""
    product, count = record.value("accelerator.product"), record.value("accelerator.count")
    cpu = record.value("host.cpu.model")
    if product and product != cpu:
        return f"{count} × {product}" if isinstance(count, int) and count > 1 else str(product)
    cores = record.value("host.cpu.threads") or record.value("host.cpu.cores")
    words = f"{cores} processor{'' if cores == 1 else 's'}" if cores else ""
    return ", ".join(str(part) for part in (cpu, words) if part) or "a machine that was not recorded"


def _in_virtual_time(record: ExecutorRecord) -> str:
    """ "SIMULATED H100"; "SIMULATED" where the law says no device."""
    product = record.value("accelerator.product")
    return f"SIMULATED {product}" if product else "SIMULATED"


def _software(record: ExecutorRecord) -> str:
    """ "vllm 0.32.0", else "torch 2.13.0"; "" where neither is known."""
    for part in ("runtime", "framework"):
        name, version = (record.value(f"software.{part}.{what}") for what in ("name", "version"))
        if name:
            return " ".join(str(word) for word in (name, version) if word)
    return ""


def _hash(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


# Load and cold-start times of a launched server or of an engine in this process, as recorded when it came up.

_READY = "from the start of the process to its first answer, asked for ten times a second"
_WEIGHTS = "the server's own word in its log"
_FIRST = "first token of the first request after it was ready, from sending"
_SECOND = "first token of the second request, sent when the first had ended"
_CACHED = "bytes of the model's files in the page cache just before the start, by mincore"
_SEVERAL = "each replica has a first request of its own"
_IN_PROCESS = ("start_load_s", "start_first_token_s")
_UNTIMED = "the executor did not time its start"
_SILENT = {
    "start_weights_s": "the server does not say when its weights are loaded",
    "start_first_token_s": "the first request after the start had no token",
    "start_second_token_s": "the second request after the start had no token",
    "start_cached_share": "this system does not say what is in its page cache",
}


def startup(run: Run) -> dict[str, Estimate]:
    """The figures of the start; none of training, of a server that somebody else started, or of one that was not timed.

    An engine in this process that was not timed (a recorded run, an executor that does not time its load) has the
    names with that reason.
    """
    if (server := run.sections.server) is not None:
        return _of_server(server) if server.startup else {}
    if run.lens != "inference" or run.facts is None or run.sections.client is not None or run.place == "simulated":
        return {}
    return dict(run.facts.startup) or dict.fromkeys(_IN_PROCESS, Estimate.absent(SECONDS, _UNTIMED))


def _of_server(server: Running) -> dict[str, Estimate]:
    known = server.startup
    cached = known.get("cached_share")
    warm = "" if not isinstance(cached, float) else f"; page cache {'cold' if cached < 0.01 else f'{cached:.0%} warm'}"
    told = {
        "start_ready_s": (server.ready_s, SECONDS, _READY + warm),
        "start_weights_s": (known.get("weights_s"), SECONDS, _WEIGHTS + warm),
        "start_first_token_s": (known.get("first_token_s"), SECONDS, _FIRST),
        "start_second_token_s": (known.get("second_token_s"), SECONDS, _SECOND),
        "start_cached_share": (cached, RATIO, _CACHED),
    }
    return {
        name: Estimate(float(value), unit, method, "measured", n=1)
        if isinstance(value, int | float)
        else Estimate.absent(unit, _SEVERAL if server.replicas > 1 and "token" in name else _SILENT[name])
        for name, (value, unit, method) in told.items()
    }
