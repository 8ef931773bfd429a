"""The parts of an executor record that the measuring layer itself knows: workload, protocol and provenance."""

from __future__ import annotations

import platform
import shlex
import sys
from datetime import UTC, datetime

from twinlens.record.executor import Fact, declared, observed, unknown
from twinlens.spec.model import load_model
from twinlens.spec.study import RunSpec
from twinlens.spec.workload import InferenceWorkload, TrainingWorkload
from twinlens.theory.flop import parameters
from twinlens.version import __version__


def disclosed(spec: RunSpec) -> dict[str, Fact]:
    """Facts of groups E to I that do not depend on the executor."""
    return _model(spec) | _workload(spec) | _protocol(spec) | _provenance()


def _model(spec: RunSpec) -> dict[str, Fact]:
    if spec.executor.kind == "openai-http":  # a server's model is what it serves under that name; it need not be here
        return {"model.id": declared(spec.workload.model, "the spec")}
    ref = load_model(spec.workload.model)
    count = parameters(ref.shape)
    return {
        "model.id": declared(ref.name, ref.source),
        "model.parameters": observed(count.total, "config"),
        "model.active_parameters": observed(count.active, "config"),
        "model.shape": observed(ref.shape.model_dump(mode="json", exclude_none=True), "config"),
    }


def _workload(spec: RunSpec) -> dict[str, Fact]:
    where = "the spec"
    workload = spec.workload
    data = workload.data.model_dump(mode="json", exclude_none=True)
    facts = {
        "workload.family": declared(spec.lens, where),
        "workload.data_hash": declared(data, where),
        "workload.seed": declared(spec.seed, where),
    }
    if isinstance(workload, TrainingWorkload):
        goal = workload.until.model_dump(mode="json", exclude_none=True) if workload.until else "none: a fixed duration"
        return facts | {
            "workload.input_tokens": declared(workload.seq_len, where),
            "point.batch": declared(workload.global_batch, where),
            "quality.metric": declared("cross-entropy, nats", where),
            "quality.reference": declared("the entropy rate of the data, where it is known", where),
            "quality.tolerance": declared(goal, where),
        }
    assert isinstance(workload, InferenceWorkload)
    tolerance = spec.protocol.tolerance.model_dump(mode="json")
    return facts | {
        "workload.input_tokens": declared(workload.input_tokens.model_dump(mode="json"), where),
        "workload.output_tokens": declared(workload.output_tokens.model_dump(mode="json"), where),
        "workload.phase": declared("prefill and decode", where),
        "decoding.strategy": declared("greedy", where),
        "decoding.stop": declared("forced length", where),
        "decoding.system_prompt": declared("none", where),
        "decoding.cache_hit_ratio": declared(0.0, where),
        "arrival.process": declared(workload.arrival.model_dump(mode="json", exclude_none=True), where),
        "arrival.level": declared(spec.point.rate_per_s or spec.point.concurrency or spec.point.batch, where),
        "point.target": declared(workload.slo.limits() if workload.slo else "none", where),
        "quality.metric": declared("top-1 agreement, KL and perplexity against fp32", where),
        "quality.reference": declared("fp32, same weights, same prompts", where),
        "quality.tolerance": declared(tolerance, where),
    }


def _protocol(spec: RunSpec) -> dict[str, Fact]:
    where = "measure/session.py"
    timed = (
        "data, forward, backward, optimizer" if spec.lens == "training" else "prefill and decode; prompts made before"
    )
    return {
        "protocol.timed": observed(timed + "; not loading, compiling ahead or counting", where),
        "protocol.warmup": declared(spec.protocol.warmup, "the spec"),
        "protocol.steady": observed("change points, drift and cycle tests (stats/steady.py)", where),
        "protocol.window": declared(
            f"{spec.protocol.duration_s:g} s, at least {spec.protocol.min_rows} rows", "the spec"
        ),
        "protocol.repeats": declared(spec.protocol.repeats, "the spec"),
        "protocol.interval_method": observed(
            "t interval over run means; within a run, order statistics and blocks", where
        ),
        "protocol.timer": observed("CLOCK_MONOTONIC" if platform.system() == "Linux" else "time.monotonic_ns", where),
        "protocol.profiler": observed("off while timed", where),
        "protocol.tier": declared("B0 stock: defaults, and the weight layout named in compiler.flags", "the spec"),
        "protocol.budget": declared("none: nothing was searched", "the spec"),
    }


def _provenance() -> dict[str, Fact]:
    return {
        "provenance.tool_version": observed(__version__, "twinlens"),
        "provenance.date": observed(datetime.now(UTC).date().isoformat(), "system clock"),
        "provenance.command": observed(shlex.join(sys.orig_argv), "sys.orig_argv"),
        "provenance.measured_by": unknown("nobody said; the spec has no field for it yet"),
    }
