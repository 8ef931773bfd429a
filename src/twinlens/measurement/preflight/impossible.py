"""Refuse what no machine, or not this one, can do; in `check` as in `measure`, before anything is started or
written.
"""

from __future__ import annotations

from pathlib import Path

import psutil

from twinlens.errors import BadInput
from twinlens.executors.registry import capabilities
from twinlens.measurement.drive.training import give_up_s
from twinlens.schedule.content.prompt import words_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.arrival import Lockstep, Offline, Ramp, Trace
from twinlens.spec.workload.collective import CollectiveWorkload
from twinlens.spec.workload.prompt import PromptFile
from twinlens.spec.workload.workload import InferenceWorkload, ModelWorkload, Text, TrainingWorkload

_LONGEST_S = 30 * 86400.0
_MOST_REQUESTS = 10_000_000
"""Of one run: a plan of them takes half a gigabyte, and they are planned before the first is sent."""
_STEEPEST = 10.0


def refuse_impossible(spec: RunSpec) -> None:
    """Raises BadInput for a run that could not come to anything wherever it is tried."""
    _refuse_times(spec)
    _refuse_threads(spec)
    if isinstance(spec.workload, TrainingWorkload):
        if spec.workload.learning_rate > _STEEPEST:
            raise _bad(
                f"workload.learning_rate = {spec.workload.learning_rate:g} is above {_STEEPEST:g}: nothing learns"
            )
    elif isinstance(spec.workload, InferenceWorkload):
        _refuse_load(spec, spec.workload)
    if not isinstance(spec.workload, CollectiveWorkload):
        _refuse_text(spec, spec.workload)


def _refuse_times(spec: RunSpec) -> None:
    protocol, workload = spec.protocol, spec.workload
    if protocol.duration_s > _LONGEST_S:
        raise _bad(f"protocol.duration_s = {protocol.duration_s:g} is longer than 30 days")
    under_load = isinstance(workload, InferenceWorkload) and not isinstance(workload.arrival, Lockstep)
    # A load is played once; other runs are doubled, and go on for a while until they have their least number of rows.
    longest_s = protocol.duration_s if under_load else give_up_s(protocol.duration_s * 2.0 ** min(protocol.extend, 64))
    if protocol.steady_s > longest_s:
        raise _bad(
            f"protocol.steady_s = {protocol.steady_s:g} cannot be reached: with protocol.duration_s = "
            f"{protocol.duration_s:g} a run ends after {longest_s:g} s; lower the one or raise the other"
        )


def _refuse_threads(spec: RunSpec) -> None:
    processors = psutil.cpu_count() or 1
    if spec.executor.threads > processors and "threads" in capabilities(spec.executor.kind).settings:
        raise _bad(f"executor.threads = {spec.executor.threads}, and this machine has {processors} processors")


def _refuse_load(spec: RunSpec, workload: InferenceWorkload) -> None:
    arrival, duration_s = workload.arrival, spec.protocol.duration_s
    per_s = max(arrival.from_per_s, arrival.to_per_s) if isinstance(arrival, Ramp) else spec.point.rate_per_s or 0.0
    turns = workload.sessions.turns.max if workload.sessions else 1
    requests = arrival.requests if isinstance(arrival, Offline) else per_s * duration_s * turns
    if requests > _MOST_REQUESTS:
        raise _bad(
            f"{requests:.3g} requests in one run are more than {_MOST_REQUESTS:,}: lower the rate, or "
            "protocol.duration_s"
        )
    if isinstance(arrival, Trace) and not Path(arrival.path).is_file():
        raise BadInput(f"there is no trace {arrival.path!r}", code="TL213")
    if isinstance(workload.prompts, PromptFile):
        words_of(workload.prompts)


def _refuse_text(spec: RunSpec, workload: ModelWorkload) -> None:
    can = capabilities(spec.executor.kind)
    if can.runs != "here" or can.prompts != "tokens" or not isinstance(workload.data, Text):
        return
    is_training = isinstance(workload, TrainingWorkload)
    wanted = workload.seq_len + 1 if isinstance(workload, TrainingWorkload) else 1
    try:
        size_bytes = Path(workload.data.path).stat().st_size
    except OSError as error:
        why = error.strerror or error
        raise BadInput(f"cannot read the text file {workload.data.path!r}: {why}", code="TL209") from None
    held_out = is_training and getattr(workload, "until", None) is not None
    part_bytes = size_bytes - size_bytes * 9 // 10 if held_out else size_bytes * 9 // 10
    if part_bytes <= wanted:
        part = "last tenth, held out," if held_out else "first nine tenths"
        raise BadInput(
            f"the text file {workload.data.path!r} is too short: of its {size_bytes} bytes the {part} are "
            f"{part_bytes}, and sequences take {wanted}; use a longer one",
            code="TL209",
        )


def _bad(sentence: str) -> BadInput:
    return BadInput(sentence, code="TL202")
