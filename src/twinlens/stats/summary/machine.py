"""The machine, model and precision of a run, and how long its start took."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import FIELDS, ExecutorRecord
from twinlens.record.run import Run
from twinlens.record.sections import Running
from twinlens.spec.point import Point
from twinlens.spec.precision import AS_SERVED
from twinlens.stats.summary.group import Machine
from twinlens.units import RATIO, SECONDS

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
    return Machine(
        id=_hash(hardware),
        name=url or _name(record),
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
    if run.lens != "inference" or run.facts is None or run.sections.client is not None:
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
