"""Counters of a second run under an instrument: the same workload, never ranked, in no figure of the first."""

from __future__ import annotations

from dataclasses import replace

from twinlens.comparison.side import Side
from twinlens.comparison.workload_hash import workload_hash
from twinlens.diagnosis.counter import kernels_counter
from twinlens.diagnosis.diagnosis import Diagnosis
from twinlens.errors import BadInput
from twinlens.executors.registry import executor
from twinlens.record.run import Run
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.summary.group import Summary, group

_CODE = "TL239"
INSTRUMENTS = ("profiler",)


def instrumented(run: Run, summary: Summary, found: Diagnosis, instrument: str) -> Diagnosis:
    """The diagnosis with the counters of a profiled run beside its own. Raises BadInput (TL239) where the instrument is
    unknown or sees nothing of this run, and what opening the engine raises."""
    if instrument not in INSTRUMENTS:
        raise BadInput(f"unknown instrument {instrument!r}; known: {', '.join(INSTRUMENTS)}", code=_CODE)
    profile = executor(run.spec.executor.kind).profile
    if profile is None:
        why = "it watches engines in this process, and what ran here was none"
        raise BadInput(f"the profiler sees nothing of {run.spec.executor.kind!r}: {why}", code=_CODE)
    side = Side(run.id, group([summary])[0], (run,))
    hash = workload_hash(side)
    more = tuple(kernels_counter(phase, seconds, hash) for phase, seconds in profile(_plain(run.spec)).items())
    return replace(found, counters=(*found.counters, *more))


def _plain(spec: RunSpec) -> RunSpec:
    """The same work without what only a measured run needs: ceilings, and a comparison with fp32."""
    protocol = spec.protocol.model_copy(update={"ceilings": False})
    workload = spec.workload
    if isinstance(workload, InferenceWorkload):
        workload = workload.model_copy(update={"fidelity_prompts": 0})
    return spec.model_copy(update={"protocol": protocol, "workload": workload})
