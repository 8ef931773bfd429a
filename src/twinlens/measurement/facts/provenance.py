"""The parts of an executor record that the measuring layer itself knows: workload, protocol and provenance."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from twinlens.executors.capabilities import is_as_shipped
from twinlens.executors.registry import capabilities
from twinlens.measurement.facts.model import asked_model
from twinlens.measurement.facts.workload import workload_facts
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import Fact, declared, observed, unknown
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.study import RunSpec
from twinlens.theory.flop import parameters
from twinlens.version import __version__

_TIMED = {
    "training": "data, forward, backward, optimizer",
    "inference": "prefill and decode; prompts made before",
    "collective": "the exchange on each rank, after a barrier that is in no figure",
}


def provenance(spec: RunSpec, facts: Facts) -> dict[str, Fact]:
    """Facts of groups E to I that do not depend on the executor. `facts`: what it said when it was opened."""
    return _model(spec) | workload_facts(spec, facts) | _protocol(spec) | _tier(spec) | said_by_tool()


def _model(spec: RunSpec) -> dict[str, Fact]:
    if spec.lens == "collective":
        none = declared("none: ranks exchange a buffer", "the spec")
        return dict.fromkeys(("model.id", "model.parameters", "model.active_parameters", "model.shape"), none)
    if (
        capabilities(spec.executor.kind).runs == "elsewhere"
    ):  # a server's model is what it serves under that name; it need not be here
        return {"model.id": declared(spec.workload.model, "the spec")}
    return facts_of_model(asked_model(spec))


def facts_of_model(ref: AnyModel) -> dict[str, Fact]:
    """Name, parameters and shape of a model that is at hand; unknown with the reason where theory is silent."""
    if ref.shape is None:
        names = ("model.parameters", "model.active_parameters", "model.shape")
        return {"model.id": declared(ref.name, ref.source)} | dict.fromkeys(names, unknown(ref.why))
    count = parameters(ref.shape)
    return {
        "model.id": declared(ref.name, ref.source),
        "model.parameters": observed(count.total, "config"),
        "model.active_parameters": observed(count.active, "config"),
        "model.shape": observed(ref.shape.model_dump(mode="json", exclude_none=True), "config"),
    }


def _protocol(spec: RunSpec) -> dict[str, Fact]:
    where = "measurement/session.py"
    return {
        "protocol.timed": observed(_TIMED[spec.lens] + "; not loading, compiling ahead or counting", where),
        "protocol.warmup": declared(spec.protocol.warmup, "the spec"),
        "protocol.steady": observed("change points, drift and cycle tests (stats/steady/segment.py)", where),
        "protocol.window": declared(
            f"{spec.protocol.duration_s:g} s, at least {spec.protocol.min_rows} rows", "the spec"
        ),
        "protocol.repeats": declared(spec.protocol.repeats, "the spec"),
        "protocol.interval_method": observed(
            "t interval over run means; within a run, order statistics and blocks", where
        ),
        "protocol.timer": observed("CLOCK_MONOTONIC" if platform.system() == "Linux" else "time.monotonic_ns", where),
        "protocol.profiler": observed("off while timed", where),
    }


def _tier(spec: RunSpec) -> dict[str, Fact]:
    """Whether anything was set that the executor does not come with; what was tried before, a spec cannot say."""
    if capabilities(spec.executor.kind).runs == "elsewhere":
        why = "how that server was set up is not known to its client"
        return {"protocol.tier": unknown(why), "protocol.budget": unknown(why)}
    chosen = _chosen(spec)
    if not chosen:
        stock = "B0 stock: defaults, and what compiler.flags names"
        return {
            "protocol.tier": declared(stock, "the spec; variables inherited are in software.environment"),
            "protocol.budget": declared("none: nothing was chosen", "the spec"),
        }
    return {
        "protocol.tier": declared(f"not stock: {', '.join(chosen)}", "the spec, and what the launcher sets unasked"),
        "protocol.budget": unknown("what was tried before these settings were chosen, nobody said"),
    }


def _chosen(spec: RunSpec) -> list[str]:
    """Options that make the stack another one than its makers ship; threads and processors are conditions."""
    can = capabilities(spec.executor.kind)
    changed = [] if is_as_shipped(spec) else list(can.unasked)
    for name, option in can.options.items():
        value = spec.executor.options.get(name, option.default)
        if option.tunes and value != option.default:
            changed += _words(name, value)
    return changed


def _words(name: str, value: Any) -> list[str]:
    """Flags as one text, variables one by one, anything else by its name."""
    if isinstance(value, Mapping):
        return [f"{key}={word}" for key, word in sorted(value.items())]
    return [" ".join(value) if isinstance(value, list | tuple) else f"{name} {value}"]


def said_by_tool() -> dict[str, Fact]:
    """Version, date and command line of this process."""
    return {
        "provenance.tool_version": observed(__version__, "twinlens"),
        "provenance.date": observed(datetime.now(UTC).date().isoformat(), "system clock"),
        "provenance.command": observed(shlex.join(sys.orig_argv), "sys.orig_argv"),
        "provenance.measured_by": unknown("nobody said; the spec has no field for it yet"),
    }
