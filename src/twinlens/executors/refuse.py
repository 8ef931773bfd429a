"""Refusals from an executor's capabilities: what it cannot do, and settings that would have no effect on it."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Capabilities, refuse_wrong_options
from twinlens.executors.in_process.weights import refuse_unanswered, refuse_unbuilt, refuse_unread
from twinlens.executors.registry import capabilities, executor, launcher, refuse_unknown_executor
from twinlens.spec.device import AskedDevice
from twinlens.spec.study import ExecutorSpec, RunSpec
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload

_SETTINGS = ("device", "threads")
_ALONE = "answers one request at a time with continuous_batching off"


def refuse_unsupported(spec: RunSpec) -> None:
    """Raises BadInput: TL207 for an option, TL218 for a setting, TL203 for a precision, TL202 for a model or arrivals
    that this executor does not have."""
    kind = spec.executor.kind
    refuse_unknown_executor(kind, spec.lens)
    can = capabilities(kind)
    refuse_wrong_options(kind, spec.executor.options, can.options)
    _refuse_settings(spec.executor, can)
    if can.precisions is not None and spec.point.precision not in can.precisions:
        reason = can.why_not.get(spec.point.precision)
        because = f": {reason}" if reason else ""
        raise BadInput(
            f"{kind} runs {', '.join(can.precisions)}, and point.precision is {spec.point.precision!r}{because}",
            code="TL203",
        )
    if spec.lens == "collective":  # no model, and nothing that is of one
        return
    _refuse_method(spec, can)
    if isinstance(spec.workload, TrainingWorkload) and spec.workload.save and not can.saves_weights:
        raise BadInput(f"workload.save is set, and {kind} cannot save weights; leave it out", code="TL202")
    _refuse_arrivals(spec, can)
    _refuse_admission(spec, can)
    _refuse_task(spec, can)
    _refuse_family(spec, can)
    if can.is_sized_by_theory:  # it makes weights of 16 or 32 bits of those that the folder holds
        refuse_unbuilt(spec.model)
        if spec.lens == "inference":
            refuse_unanswered(spec.model)
        refuse_unread(spec.model)


def refuse_shared_gpu(device: AskedDevice, ranks: int, gpus: int) -> None:
    """Raises BadInput (TL208) where ranks would have to share a GPU, or one GPU is named for several.

    `gpus`: those that are seen here; 0 where the processor is meant, and where they are of other machines.
    """
    if ranks > 1 and device.index is not None:
        raise BadInput(
            f"{ranks} ranks need a GPU each, and executor.device names one (cuda:{device.index}); set it to cuda, and "
            "CUDA_VISIBLE_DEVICES to those that they may use",
            code="TL208",
        )
    if 0 < gpus < ranks:
        seen = "one is seen, which has no link to another" if gpus == 1 else f"{gpus} are seen"
        raise BadInput(
            f"{ranks} ranks need a GPU each, and {seen}; set fewer ranks, or the device to cpu", code="TL208"
        )


def _refuse_settings(asked: ExecutorSpec, can: Capabilities) -> None:
    stock = ExecutorSpec()
    for name in _SETTINGS:
        value = getattr(asked, name)
        if name not in can.settings and value != getattr(stock, name):
            raise BadInput(
                f"executor.{name} = {value!r} has no effect on {asked.kind}, which does not read it; leave it out",
                code="TL218",
            )


def _refuse_method(spec: RunSpec, can: Capabilities) -> None:
    kind, workload = spec.executor.kind, spec.workload
    if isinstance(workload, TrainingWorkload):
        if workload.method not in can.methods:
            raise BadInput(
                f"{kind} trains with the method {', '.join(can.methods)}, and workload.method is {workload.method!r}; "
                'take executor.kind = "torch"',
                code="TL202",
            )
        _refuse_lacking(f"workload.method {workload.method!r}", can.methods[workload.method])
    elif isinstance(workload, InferenceWorkload) and workload.adapter is not None:
        if can.serves_adapters is None:
            raise BadInput(f'{kind} serves no workload.adapter; take executor.kind = "torch"', code="TL202")
        _refuse_lacking("workload.adapter", can.serves_adapters)


def _refuse_lacking(what: str, packages: tuple[str, ...]) -> None:
    if lacking := [name for name in packages if find_spec(name) is None]:
        raise BadInput(
            f"{what} needs {' and '.join(lacking)}, not installed here; install the extra: "
            "pip install 'twinlens[finetune]'",
            code="TL207",
        )


def _refuse_arrivals(spec: RunSpec, can: Capabilities) -> None:
    if not isinstance(spec.workload, InferenceWorkload) or spec.workload.arrival.kind in can.arrivals:
        return
    raise BadInput(
        f"{spec.executor.kind} answers arrivals of kind {', '.join(can.arrivals)}, not {spec.workload.arrival.kind!r}; "
        'take another executor, such as a server (executor.kind = "openai-http")',
        code="TL202",
    )


def _refuse_admission(spec: RunSpec, can: Capabilities) -> None:
    """Continuous admission before an engine that lets nobody in between would be told as what never ran."""
    alone = "" if spec.executor.options.get("continuous_batching", True) else _ALONE
    if spec.point.admission == "continuous" and (why := can.nobody_joins or alone):
        raise BadInput(
            f'point.admission is "continuous", and {spec.executor.kind} {why}; take "static" or "dynamic" (--at '
            "admission=static,dynamic), or an executor whose requests join: openvino-served, transformers-serve, vllm",
            code="TL202",
        )


def _refuse_task(spec: RunSpec, can: Capabilities) -> None:
    if not isinstance(spec.workload, InferenceWorkload) or spec.workload.task.kind in can.tasks:
        return
    raise BadInput(
        f"{spec.executor.kind} answers tasks of kind {', '.join(can.tasks)}, not {spec.workload.task.kind!r}; "
        "embed and rerank are asked through openai-http, classify through kserve-http",
        code="TL202",
    )


def _refuse_family(spec: RunSpec, can: Capabilities) -> None:
    try:
        shape = spec.model.shape
    except BadInput:  # whoever needs the model here says so
        return
    if shape is not None and shape.family not in can.families:
        raise BadInput(
            f"{spec.executor.kind} runs models of the family {', '.join(can.families)}, and {spec.workload.model!r} is "
            f"of the family {shape.family}",
            code="TL202",
        )


# The runtime of a run, looked for on this machine before anything is started.


def is_installed(packages: tuple[str, ...]) -> bool:
    """Whether this Python has one of some distributions; with none to look for, yes."""
    return not packages or any(map(_is_there, packages))


def python_beside(can: Capabilities) -> str:
    """The Python of the environment that `make` installs an executor in, where that has it; "" where there is none.

    It is looked for in the working directory and beside this Python's own environment.
    """
    for folder in dict.fromkeys((Path(can.beside), Path(sys.prefix).parent / can.beside)) if can.beside else ():
        found = distributions(path=[str(each) for each in folder.glob("lib/python3*/site-packages")])
        if {_plain(each.name) for each in found} & {_plain(name) for name in can.packages}:
            return str(folder / "bin" / "python")
    return ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def refuse_not_installed(spec: RunSpec) -> None:
    """Raises BadInput (TL207, TL217) where neither this Python nor the one that the spec names has the runtime."""
    if (starter := launcher(spec.executor.kind)) is not None:
        starter.refuse_not_installed(spec)
        return
    if (refuse := executor(spec.executor.kind).refuse_not_installed) is not None:
        refuse(spec)
        return
    can = capabilities(spec.executor.kind)
    if not is_installed(can.packages):
        raise BadInput(f"{spec.executor.kind} is not installed: {can.install}", code="TL207")


def _is_there(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
