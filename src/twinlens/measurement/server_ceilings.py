"""Ceilings of the machine that a server runs on, measured when the load is over: through an engine of this process, on
the processors or the GPU that the server has, while the server waits. Of a server on several GPUs, as many times those
of one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

import psutil

from twinlens.errors import TwinlensError
from twinlens.executors.launch.recipe import MASK
from twinlens.executors.registry import executor, executor_names, lenses_of
from twinlens.measurement.facts.predicted_work import asked_model
from twinlens.measurement.server.here import Here, server_here
from twinlens.measurement.server.shared import uses_cuda
from twinlens.record.codec import decode, encode
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.sections import Running
from twinlens.spec.precision import AS_SERVED
from twinlens.spec.study import RunSpec
from twinlens.stats.estimator.repeats import scaled
from twinlens.system.nvml import open_gpus
from twinlens.system.processes import tree
from twinlens.units import BYTES_PER_S

_SHORTEST_S = 10.0  # a shorter load is no run to be judged, and measuring would take as long


def server_ceilings(spec: RunSpec, facts: Facts, running: Running | None) -> Estimates:
    """The read bandwidth and the matrix rate; absent with the reason where they cannot be measured. Empty where none
    are wanted, where the server is on another machine, or where nothing could be held against them: a model or formats
    that are not known here."""
    if not spec.protocol.ceilings or spec.protocol.duration_s < _SHORTEST_S or spec.precision == AS_SERVED:
        return {}
    if asked_model(spec).shape is None:
        return {}
    here = server_here(spec.executor.options.get("url")) if running is None else Here(running.pid)
    if here is None or here.pid is None:
        return {}  # elsewhere, or in a container or of a user whose processes cannot be seen
    cpus = running.cpus if running is not None else _cpus_of(here.pid)
    device = _device(spec, facts, here.pid if running is None else None)
    if device is None:
        return {}
    try:
        with _kept_to(cpus):
            found = _deciding(device, spec.precision.compute, _threads(spec, running, cpus))
    except (TwinlensError, ImportError, RuntimeError, OSError) as error:
        why = f"it could not be measured beside the server ({str(error).splitlines()[0][:120]})"
        return {"read_bytes_per_s": Estimate.absent(BYTES_PER_S, why)}
    if device == "cpu" or running is None:
        return {name: _beside(each) for name, each in found.items()}
    if running.replicas > 1:
        why = f"{running.replicas} replicas each read the weights on GPUs of their own, and no request says on which"
        return {name: Estimate.absent(each.unit, why) for name, each in found.items()}
    boards = _boards(facts, running)
    return {name: _beside(_of_boards(each, boards)) for name, each in found.items()}


def _boards(facts: Facts, running: Running) -> int:
    """The GPUs of one server: those that it is charged with, else those that it was given."""
    used = facts.executor.value("accelerator.uuid")
    given = [entry for entry in running.environment.get(MASK, "").split(",") if entry]
    return max(1, len(used or given))


def _of_boards(one: Estimate, boards: int) -> Estimate:
    return one if boards == 1 else scaled(one, boards, one.unit, f"{boards} GPUs, each as the first", one.origin)


def _deciding(device: str, format: str, threads: int | None) -> Mapping[str, Estimate]:
    missing = ImportError("no engine is installed that measures it: pip install 'twinlens[torch]'")
    for kind in executor_names():
        if lenses_of(kind) and (look := executor(kind).probe) is not None:
            try:
                return look(device).deciding(format, threads)
            except ImportError as error:
                missing = ImportError(f"{error}: pip install 'twinlens[torch]'")
    raise missing


def _beside(estimate: Estimate) -> Estimate:
    said = f"{estimate.method}, after the load, beside the waiting server"
    return decode(Estimate, {**encode(estimate), "method": said})


def _device(spec: RunSpec, facts: Facts, attached: int | None) -> str | None:
    """The device that the server computes on: a launched one's as asked; that of `attached`, somebody else's process,
    where it has no CUDA or there is one GPU only, else None."""
    if attached is not None:
        if not uses_cuda(tree(attached)):
            return "cpu"
        return "cuda" if len(open_gpus()[0]) == 1 else None
    if spec.device.names_gpu:
        return str(spec.device)
    return "cuda" if "accelerator.uuid" in facts.executor.facts else "cpu"


def _threads(spec: RunSpec, running: Running | None, cpus: Sequence[int]) -> int | None:
    """As many as the server computes with: those it was given, else one for each processor it may use."""
    asked = spec.executor.threads if running is not None else 0
    return asked or len(cpus) or None


def _cpus_of(pid: int) -> tuple[int, ...]:
    """The processors that a server of somebody else's is kept to; empty where that is not known."""
    try:
        return tuple(psutil.Process(pid).cpu_affinity())
    except (psutil.Error, OSError, AttributeError):
        return ()


@contextlib.contextmanager
def _kept_to(cpus: Sequence[int]) -> Iterator[None]:
    """On these processors meanwhile, as the server is; where it is on."""
    if not cpus or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
