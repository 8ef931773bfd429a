"""The power limit that a spec asks for (`executor.power_limit_w`): of which devices, whether it can be had, held."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.executors.launch.replicas import visible_entries
from twinlens.executors.registry import capabilities, executor, launches
from twinlens.measurement.machine.nvidia import board_of
from twinlens.measurement.preflight.idle_gpu import uses_gpu
from twinlens.spec.study import RunSpec
from twinlens.system.limit_keeper import held_limits
from twinlens.system.nvml import Gpu, open_gpus
from twinlens.system.power_limit import POWERCAP, REFUSED, PowerLimit, limits_of_gpus, limits_of_packages


@contextlib.contextmanager
def power_limited(spec: RunSpec, powercap: Path = POWERCAP) -> Iterator[None]:
    """Meanwhile the devices of a run have the limit that it asks for, if any. Raises as `held_limits` and
    `device_limits`."""
    if spec.executor.power_limit_w is None:
        yield
        return
    with held_limits(device_limits(spec, powercap), spec.executor.power_limit_w, powercap=powercap):
        yield


def refuse_power_limit(spec: RunSpec, powercap: Path = POWERCAP) -> None:
    """Raises BadInput (TL218, TL266) for a limit that has no effect on this executor, or cannot be set here."""
    if spec.executor.power_limit_w is not None:
        for limit in device_limits(spec, powercap):
            limit.raw_of(spec.executor.power_limit_w)


def device_limits(spec: RunSpec, powercap: Path = POWERCAP) -> tuple[PowerLimit, ...]:
    """The limits, as they are now, of the boards that a run uses, or of all processor packages where it uses none.

    Raises BadInput (TL218) where the executor computes on no device of this machine, (TL266) where a limit cannot be
    set, with the reason.
    """
    can = capabilities(spec.executor.kind)
    if can.runs != "here" or not can.settings or spec.executor.options.get("on"):
        raise BadInput(
            f"executor.power_limit_w has no effect on {spec.executor.kind}, which computes on no device of this "
            "machine; leave it out",
            code="TL218",
        )
    if launches(spec.executor.kind) and spec.device.kind == "auto" and open_gpus()[0]:
        raise BadInput(
            'executor.power_limit_w of a server is of the device that the spec names: set executor.device to "cpu" or '
            '"cuda"',
            code=REFUSED,
        )
    if "device" not in can.settings or not uses_gpu(spec.device):
        return limits_of_packages(powercap)
    return limits_of_gpus(_boards_used(spec))


def _boards_used(spec: RunSpec) -> tuple[Gpu, ...]:
    """The first boards in CUDA's order, as many as the run has processes on GPUs. Raises BadInput (TL266)."""
    gpus, why = open_gpus()
    many, unsaid = _many(spec), why or "which boards CUDA will use is not known"
    if spec.device.index is not None or many == 1:
        one = board_of(spec.device, gpus)
        found: tuple[Gpu, ...] = () if one is None else (one,)
    else:
        found = open_gpus((visible_entries() or [])[:many])[0]
    if len(found) < (1 if spec.device.index is not None else many):
        raise BadInput(f"executor.power_limit_w cannot be set: {unsaid}", code=REFUSED)
    return found


def _many(spec: RunSpec) -> int:
    if (divide := executor(spec.executor.kind).degrees) is not None:
        return divide(spec).ranks
    options = spec.executor.options
    split = options.get("gpus_each") or options.get("tensor_parallel")
    return (split if isinstance(split, int) else 1) * int(options.get("replicas", 1))
