"""Counters of a second run under an instrument: the same workload, never ranked, in no figure of the first."""

from __future__ import annotations

from twinlens.comparison.difference import workload_hash
from twinlens.comparison.side import Side
from twinlens.diagnosis.counter import Counter, kernels_counter
from twinlens.errors import BadInput
from twinlens.record.beside import keep_profile, kept_profile
from twinlens.record.run import Run
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.summary.group import Summary, group

_CODE = "TL239"
INSTRUMENTS = ("profiler",)


def watch(run: Run, summary: Summary, instrument: str) -> None:
    """Do the work of a run once more under an instrument, and keep what it saw with the run: `diagnose` shows it from
    then on. Raises BadInput (TL239) where the instrument is unknown or sees nothing of this run, what opening the
    engine raises, and OSError where nothing can be written."""
    if instrument not in INSTRUMENTS:
        raise BadInput(f"unknown instrument {instrument!r}; known: {', '.join(INSTRUMENTS)}", code=_CODE)
    from twinlens.executors.registry import executor  # what is only read opens no engine

    profile = executor(run.spec.executor.kind).profile
    if profile is None:
        why = "it watches engines in this process, and what ran here was none"
        raise BadInput(f"the profiler sees nothing of {run.spec.executor.kind!r}: {why}", code=_CODE)
    keep_profile(run.folder, profile(_plain(run.spec)), _workload(run, summary))


def kept_counters(run: Run, summary: Summary) -> tuple[Counter, ...]:
    """Time by class of kernel that an instrument saw of this work; none where none was kept.

    Raises BadInput: TL205, TL220 for a file that cannot be read or is damaged, TL205 for one of other work.
    """
    kept = kept_profile(run.folder)
    if kept is None:
        return ()
    if kept.workload != (workload := _workload(run, summary)):
        why = f"instrument.json of {run.id} is of workload {kept.workload}, and the run of {workload}"
        raise BadInput(f"{why}; remove it, or watch the run again", code="TL205")
    return tuple(kernels_counter(phase, kept) for phase in kept.profile.seconds)


def _workload(run: Run, summary: Summary) -> str:
    return workload_hash(Side(run.id, group([summary])[0], (run,)))


def _plain(spec: RunSpec) -> RunSpec:
    """The same work without what only a measured run needs: ceilings, and a comparison with fp32."""
    protocol = spec.protocol.model_copy(update={"ceilings": False})
    workload = spec.workload
    if isinstance(workload, InferenceWorkload):
        workload = workload.model_copy(update={"fidelity_prompts": 0})
    return spec.model_copy(update={"protocol": protocol, "workload": workload})
