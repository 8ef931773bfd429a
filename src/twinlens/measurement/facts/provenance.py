"""The parts of an executor record that the measuring layer itself knows: workload, protocol and provenance."""

from __future__ import annotations

import hashlib
import platform
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinlens.executors.capabilities import is_as_shipped
from twinlens.executors.registry import capabilities
from twinlens.measurement.facts.predicted_work import asked_model
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import Fact, declared, observed, unknown
from twinlens.schedule.prompt import WORDS
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.arrival import Trace
from twinlens.spec.workload.prompt import Classify, Generate, PromptFile
from twinlens.spec.workload.workload import CollectiveWorkload, InferenceWorkload, Text, TrainingWorkload
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


_SPEC = "the spec"
_FIDELITY = "top-1 agreement, KL and perplexity against fp32"
_SERVED = {
    "log-probabilities": "top-1 agreement, KL of top tokens and perplexity, from log probabilities of prompts",
    "answers": "answer agreement, from greedy answers up to their first difference",
}


def workload_facts(spec: RunSpec, facts: Facts) -> dict[str, Fact]:
    """Groups E6, F and G. `facts`: what the executor said when it was opened; whether it compared outputs is in it."""
    workload = spec.workload
    if isinstance(workload, CollectiveWorkload):
        return _exchange(spec, workload)
    fields = {
        "workload.family": declared(spec.lens, _SPEC),
        "workload.data_hash": data_hash(spec),
        "workload.seed": declared(spec.seed, _SPEC),
    }
    if isinstance(workload, TrainingWorkload):
        return fields | _training(workload) | _files(workload, facts)
    return fields | _inference(spec, workload) | _quality(spec, facts)


def _exchange(spec: RunSpec, workload: CollectiveWorkload) -> dict[str, Fact]:
    """Values of a buffer do not decide how long an exchange takes, and no output is judged."""
    none = declared("none: nothing is computed but sums", "the exchange")
    return {
        "workload.family": declared(spec.lens, _SPEC),
        "workload.phase": declared(f"{workload.exchange} of {workload.size_bytes:,} bytes", _SPEC),
        "workload.data_hash": declared("buffers of ones", "the exchange"),
        "workload.seed": declared(spec.seed, _SPEC),
    } | dict.fromkeys(("quality.metric", "quality.reference", "quality.tolerance"), none)


def _training(workload: TrainingWorkload) -> dict[str, Fact]:
    goal = workload.until.model_dump(mode="json", exclude_none=True) if workload.until else "none: a fixed duration"
    return {
        "workload.input_tokens": declared(workload.seq_len, _SPEC),
        "point.batch": declared(workload.global_batch, _SPEC),
        "quality.metric": declared("cross-entropy, nats", _SPEC),
        "quality.reference": declared("the entropy rate of the data, where it is known", _SPEC),
        "quality.tolerance": declared(goal, _SPEC),
    }


def _files(workload: TrainingWorkload, facts: Facts) -> dict[str, Fact]:
    """The hash of data in files, which whoever read them knows."""
    read = next((finding for finding in facts.findings if finding.code == "data-from-files"), None)
    if read is None:
        return {}
    asked = workload.data.model_dump(mode="json", exclude={"path"}, exclude_none=True)
    digest = {name: read.numbers[name] for name in ("origin", "files", "size_bytes", "sha256")}
    return {"workload.data_hash": declared({"data": asked | digest}, "sha256 of all files in order")}


def _inference(spec: RunSpec, workload: InferenceWorkload) -> dict[str, Fact]:
    streams = isinstance(workload.task, Generate)
    task = workload.task.model_dump(mode="json", exclude_none=True)
    none = declared("none: an answer in one piece", _SPEC)
    fields = {
        "workload.phase": declared("prefill and decode" if streams else task, _SPEC),
        "decoding.strategy": declared("greedy", _SPEC) if streams else none,
        "decoding.stop": declared("forced length", _SPEC) if streams else none,
        "decoding.system_prompt": _system_prompt(spec, workload),
        "decoding.cache_hit_ratio": _no_hits_yet(spec),
        "arrival.process": declared(workload.arrival.model_dump(mode="json", exclude_none=True), _SPEC),
        "arrival.level": declared(spec.point.rate_per_s or spec.point.concurrency or spec.point.batch, _SPEC),
        "point.target": declared(workload.slo.limits() if workload.slo else "none", _SPEC),
    }
    if isinstance(workload.arrival, Trace):
        return fields | dict.fromkeys(
            ("workload.input_tokens", "workload.output_tokens"), declared("as recorded in the trace", _SPEC)
        )
    return fields | {
        "workload.input_tokens": declared(workload.input_tokens.model_dump(mode="json"), _SPEC),
        "workload.output_tokens": declared(workload.output_tokens.model_dump(mode="json"), _SPEC) if streams else none,
    }


def _quality(spec: RunSpec, facts: Facts) -> dict[str, Fact]:
    names = ("quality.metric", "quality.reference", "quality.tolerance")
    is_reference = spec.point.precision == "fp32" and capabilities(spec.executor.kind).compares_with_fp32
    if not facts.fidelity and not is_reference:
        why = facts.compared.reason if facts.compared else ""
        return dict.fromkeys(names, unknown(why or "no output of this run was compared with a reference"))
    how = facts.compared if facts.fidelity else None
    where = "compared before the first row" if facts.fidelity else "fp32: others are compared with it"
    return {
        "quality.metric": declared(_FIDELITY if how is None else _SERVED[how.how], where),
        "quality.reference": declared(how.reference if how else "fp32, same weights, same prompts", where),
        "quality.tolerance": declared(spec.protocol.tolerance.model_dump(mode="json"), _SPEC),
    }


def _sends_text(spec: RunSpec) -> bool:
    return capabilities(spec.executor.kind).prompts == "text"


def _system_prompt(spec: RunSpec, workload: InferenceWorkload) -> Fact:
    if not _sends_text(spec):
        return declared("none: prompts are drawn as tokens", "the workload")
    if not isinstance(workload.task, Generate):
        return declared("none: an answer in one piece", _SPEC)
    if spec.executor.options.get("endpoint") == "completions":
        return declared("none: /completions takes plain text", "the request")
    if workload.prefix is not None:
        share = f"{workload.prefix.share:.0%} of requests carry one of {workload.prefix.count} as their system message"
        return declared(f"{share}, {workload.prefix.tokens} tokens", "the request")
    return unknown("none was sent; whether the server's chat template adds one, it does not say")


def _no_hits_yet(spec: RunSpec) -> Fact:
    """Until the run is over. An engine in lockstep asks each prompt once, and what it keeps is its own to say."""
    if _sends_text(spec):
        return unknown("the server's counters of cached prompt tokens were not read to the end of the run")
    return unknown("the executor does not say whether it keeps anything of a prompt for the next one")


def data_hash(spec: RunSpec) -> Fact:
    """The data of prompts or batches: the definition, and the sha256 of every file or list of words in it."""
    workload = spec.workload
    assert not isinstance(workload, CollectiveWorkload)
    if isinstance(workload, TrainingWorkload) or isinstance(workload.task, Classify) or not _sends_text(spec):
        parts: dict[str, Any] = {"data": _made_of(workload.data)}
    else:
        parts = {"prompts": _made_of(workload.prompts)}
        for name in ("prefix", "sessions"):
            if (part := getattr(workload, name)) is not None:
                parts[name] = part.model_dump(mode="json", exclude_none=True)
    if isinstance(workload, InferenceWorkload) and isinstance(workload.arrival, Trace):
        parts["trace"] = _file(str(workload.arrival.file))
    missing = [part["path"] for part in parts.values() if "path" in part and "sha256" not in part]
    if missing:
        return unknown(f"{missing[0]} could not be read to hash it")
    return declared(parts, "the spec; files and words by sha256; what is drawn from them follows workload.seed")


def _made_of(part: Any) -> dict[str, Any]:
    plain: dict[str, Any] = part.model_dump(mode="json", exclude_none=True)
    if isinstance(part, Text | PromptFile):
        return plain | _file(part.path)
    if plain["kind"] == "synthetic":
        return plain | {"sha256": hashlib.sha256(" ".join(WORDS).encode()).hexdigest()}
    return plain


def _file(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            return {"path": Path(path).name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    except OSError:
        return {"path": Path(path).name}
