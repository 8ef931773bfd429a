"""Refuse what cannot be run before anything is started, made or written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from twinlens.errors import BadInput
from twinlens.executors.refuse import refuse_not_installed, refuse_unsupported
from twinlens.executors.registry import capabilities, executor, launcher
from twinlens.measurement.drive.training import give_up_s
from twinlens.measurement.preflight.idle_gpu import (
    refuse_lacking_precision,
    refuse_too_few_gpus,
    refuse_unusable_gpu,
    uses_gpu,
)
from twinlens.measurement.preflight.memory import refuse_what_cannot_fit, refuse_what_cannot_fit_together
from twinlens.measurement.preflight.power import refuse_power_limit
from twinlens.measurement.refused import is_refusal
from twinlens.measurement.server.shared import refuse_stall_elsewhere
from twinlens.network.target import client_pool_of
from twinlens.schedule.prompt import words_of
from twinlens.schedule.split import refuse_unshared
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.workload.arrival import Lockstep, Offline, Ramp, Trace
from twinlens.spec.workload.prompt import PromptFile
from twinlens.spec.workload.workload import CollectiveWorkload, InferenceWorkload, ModelWorkload, Text, TrainingWorkload
from twinlens.system.home_folder import as_tilde
from twinlens.theory.parameter import parameters
from twinlens.units import show

Lacking = Mapping[str, BadInput]
"""The reason why a point cannot be had here, by its fingerprint (`RunSpec.point_fingerprint`)."""


def preflight(study: Study) -> Lacking:
    """The reason why a study cannot run, before anything begins: the same for `check` and for `measure`.

    Raises BadInput as `refuse_points`, and (TL211) where points that are up together do not fit together.
    """
    specs = study.point_runs()
    lacking = refuse_points(specs)
    if lacking and study.search is not None:  # a search has no run that could go on record as refused
        raise BadInput(sentences(lacking)[0], code="TL203")
    if study.protocol.pairing == "slices":
        refuse_what_cannot_fit_together([spec for spec in specs if spec.point_fingerprint() not in lacking])
    return lacking


def sentences(lacking: Lacking) -> tuple[str, ...]:
    """Each reason once."""
    return tuple(dict.fromkeys(map(str, lacking.values())))


def refuse_points(specs: Sequence[RunSpec]) -> Lacking:
    """The reason why some of the points cannot run.

    Raises BadInput for what ends a study, and where none of its points can be had. A precision that only some lack does
    not end it, nor a runtime that is not installed where the spec leaves such points out: those runs go on record as
    refused.
    """
    lacking: dict[str, BadInput] = {}
    for spec in specs:
        if error := _lacking(spec):
            lacking[spec.point_fingerprint()] = error
    if lacking and len(lacking) == len(specs):
        raise next(iter(lacking.values()))
    return lacking


def _lacking(spec: RunSpec) -> BadInput | None:
    """Raises BadInput for what ends a study: last of all that its runtime is not installed, else a wrong option of it
    would be named only after an installation."""
    if spec.protocol.not_installed == "refuse":
        if (error := _not_to_be_had(spec)) is None:
            refuse_not_installed(spec)
        return error
    try:
        refuse_not_installed(spec)
    except BadInput as error:
        return error
    return _not_to_be_had(spec)


def _not_to_be_had(spec: RunSpec) -> BadInput | None:
    """Raises BadInput for what is no matter of this machine."""
    try:
        refuse_what_cannot_run(spec)
    except BadInput as error:
        if not is_refusal(error):
            raise
        return error
    return None


def _of_this_machine(spec: RunSpec) -> RunSpec:
    """An exchange whose device is chosen here, with the processor where it will be that: gloo cannot do all of them."""
    if spec.lens != "collective" or spec.device.kind != "auto" or spec.executor.options.get("on"):
        return spec
    if uses_gpu(spec.device):
        return spec
    return spec.model_copy(update={"executor": spec.executor.model_copy(update={"device": "cpu"})})


def refuse_what_cannot_run(spec: RunSpec) -> None:
    """Raises BadInput for a run that does not fit this machine, or asks for what does not go together."""
    refuse_unsupported(spec)
    refuse_impossible(spec)
    refuse_unusable_gpu(spec)
    refuse_lacking_precision(spec)
    if (starter := launcher(spec.executor.kind)) is not None:
        starter.key(spec)  # its command line, which says what cannot be served, at which precision and on which GPU
    if (divide := executor(spec.executor.kind).degrees) is not None:
        refuse_too_few_gpus(spec, divide(_of_this_machine(spec)).ranks)
    refuse_what_cannot_fit(spec)
    refuse_power_limit(spec)
    refuse_saves(spec)
    refuse_stall_elsewhere(spec)
    if spec.protocol.pairing == "slices" and capabilities(spec.executor.kind).runs == "recorded":
        raise BadInput(
            'protocol.pairing = "slices": a recorded run is not measured again, so it cannot take turns',
            code="TL202",
        )
    if spec.lens != "inference":
        return
    pool = client_pool_of(spec.executor.options)
    if spec.protocol.guards and not pool.is_one:
        raise BadInput("guards sample every answer, which needs one client: clients = 1 and no --on", code="TL202")
    if spec.protocol.pairing == "slices" and not pool.is_one:
        raise BadInput(
            'protocol.pairing = "slices": one client plays every turn; leave out executor.options.clients and '
            "executor.options.on",
            code="TL202",
        )
    if isinstance(pool.clients, int) and pool.clients > 1:
        refuse_unshared(spec, pool.clients)


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
    if isinstance(arrival, Trace) and not arrival.file.is_file():
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


_BYTES_PER_PARAMETER, _KEPT, _SPARE = 12, 2, 1.1  # fp32 weights and two moments; two saves are kept


def refuse_saves(spec: RunSpec) -> None:
    """Raises BadInput (TL202) for a save that cannot be made, and for a kill that nothing could recover from."""
    if sentence := next(_of_saves(spec), None):
        raise _bad(sentence)
    asked = spec.workload.checkpoint if isinstance(spec.workload, TrainingWorkload) else None
    if asked is not None:
        _refuse_storage(spec, asked.folder)


def _of_saves(spec: RunSpec) -> Iterator[str]:
    workload, kill, can = spec.workload, spec.protocol.kill, capabilities(spec.executor.kind)
    kind, options = spec.executor.kind, spec.executor.options
    saves = isinstance(workload, TrainingWorkload) and workload.checkpoint is not None
    if saves and not can.saves_state:
        yield (
            f"workload.checkpoint is set, and {kind} does not save while it trains; leave it out or take torch or "
            "torch-parallel"
        )
    if saves and options.get("parallel") == "pp":
        yield "stages of a pipeline are not saved yet; leave out workload.checkpoint"
    if saves and options.get("on"):
        yield "ranks on a cluster are not saved yet; leave out workload.checkpoint"
    if kill is not None and not can.restarts_ranks:
        yield f"protocol.kill kills a rank, and {kind} has none to start again; leave it out or take torch-parallel"
    if kill is not None and not saves:
        yield "protocol.kill needs saves to recover from; add workload.checkpoint.every_steps"
    ranks = options.get("ranks", 2)
    if kill is not None and isinstance(ranks, int) and kill.rank >= ranks:
        yield f"protocol.kill.rank {kill.rank} is none of {ranks} ranks, which begin at 0"
    if (saves or kill is not None) and spec.protocol.pairing == "slices":
        yield 'saves and kills have no place in turns; leave out protocol.pairing = "slices"'


def _refuse_storage(spec: RunSpec, asked: str | None) -> None:
    parent = Path(asked or tempfile.gettempdir()).expanduser()
    named = as_tilde(str(parent))
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        why = "cannot be written" if parent.is_dir() else "is no folder"
        raise BadInput(f"workload.checkpoint.folder {named!r} {why}; name one that can be", code="TL202")
    shape = spec.model.shape
    if shape is None:
        return
    needed = _SPARE * _KEPT * _BYTES_PER_PARAMETER * parameters(shape).total
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise BadInput(
            f"two saves need {show(needed, 'bytes')}, and {named!r} has {show(float(free), 'bytes')} free; name "
            "another as workload.checkpoint.folder",
            code="TL202",
        )
