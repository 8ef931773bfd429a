"""Fit of training: on the devices asked for, on the fewest of each other, and what would change the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from twinlens.errors import BadInput
from twinlens.planning.fit.answer import (
    COUNTS,
    TRAINING_SHORT,
    Fit,
    Placement,
    change,
    expert_degrees,
    pipeline_degrees,
    tensor_degrees,
    usable,
)
from twinlens.planning.fit.training import Training, training_parts
from twinlens.record.finding import Finding
from twinlens.spec.device import Device
from twinlens.theory.figure import Figure
from twinlens.theory.memory import LAYOUTS, OPTIMIZERS
from twinlens.theory.sharding import Split

MEMORY_SHARE = 0.95
_SHARE = "the rest is left to fragments"
_MOST_TOKENS = 1_048_576


@dataclass(frozen=True, slots=True)
class Ways:
    """Parallel degrees besides data parallelism, and the stage of ZeRO (3 is FSDP)."""

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    zero: int = 3

    def split(self, devices: int) -> Split:
        """`devices` divided so. Raises BadInput (TL231) where they cannot be."""
        group = self.tensor * self.pipeline
        if devices % group:
            raise BadInput(
                f"{devices} devices cannot be divided by tensor {self.tensor} × pipeline {self.pipeline}; "
                f"take a multiple of {group}",
                code="TL231",
            )
        data = devices // group
        if data % self.expert:
            raise BadInput(f"--expert {self.expert} has to divide the {data} data-parallel devices", code="TL231")
        zero = self.zero if data > 1 else 0  # nothing to divide
        return Split(data, self.tensor, self.pipeline, 1, self.expert, zero, 4 * self.pipeline)


def usual_zero(tensor: int, pipeline: int, expert: int) -> int:
    """The stage of ZeRO where nobody said it: 3 (FSDP) alone, 1 (Megatron's) beside other kinds of parallelism."""
    return 3 if tensor * pipeline * expert == 1 else 1


def placed(plan: Training, device: Device, devices: int, ways: Ways) -> Placement:
    """Training on `devices` of one kind."""
    split = ways.split(devices)
    degrees = {"data": split.data, "tensor": split.tensor, "pipeline": split.pipeline, "expert": split.expert,
               "zero": split.zero}  # fmt: skip
    room = usable(device, MEMORY_SHARE, _SHARE)
    return Placement(device.name, devices, training_parts(plan, split), room, degrees, TRAINING_SHORT)


def fewest(plan: Training, device: Device, ways: Ways = Ways()) -> Placement | None:
    """The fewest devices of one kind on which it fits, up to whole nodes; None where 1,024 are not enough."""
    group = ways.tensor * ways.pipeline * ways.expert
    counts = [count for count in COUNTS if count >= group and count % group == 0]
    if counts and (first := placed(plan, device, counts[0], ways)).fits:
        return first
    low, high = 1, len(counts)
    while low < high:  # of several devices, more never hold more each
        middle = (low + high) // 2
        low, high = (low, middle) if placed(plan, device, counts[middle], ways).fits else (middle + 1, high)
    return placed(plan, device, counts[low], ways) if low < len(counts) else None


def training_answer(
    plan: Training, device: Device | None, devices: int, ways: Ways, catalogue: Sequence[Device]
) -> Fit:
    """The answer. `catalogue`: devices from which others are proposed, those with matrix engines for training."""
    check_ways(plan, ways)
    others = tuple(each for one in catalogue if _trains(one) and (each := fewest(plan, one)) is not None)
    others = tuple(sorted(others, key=lambda each: (each.devices, each.usable.number)))
    legal = _legal(plan)
    if device is None:
        return Fit(plan, None, others, legal=legal)
    asked = placed(plan, device, devices, ways)
    changes = tuple(_changes(plan, device, devices, ways)) if asked.fits is False else ()
    return Fit(plan, asked, others, changes, tuple(_most(plan, device, devices, ways, asked)), legal)


def _trains(device: Device) -> bool:
    return device.form not in ("processor", "desktop-system")


def _legal(plan: Training) -> tuple[tuple[str, tuple[int, ...]], ...]:
    shape = plan.subject.shape
    if shape is None:
        return ()
    found = (("tensor", tensor_degrees(shape, 64)), ("pipeline", pipeline_degrees(shape, 128)))
    return (*found, ("expert", expert_degrees(shape, 256))) if shape.experts else found


def check_ways(plan: Training, ways: Ways) -> None:
    """Raises BadInput (TL231) for a degree that does not divide the model, with those that do.

    Stages of a pipeline may differ by a layer (405B has 126 layers and was trained on 16 stages, arXiv 2407.21783).
    """
    if plan.subject.shape is not None and ways.pipeline > plan.subject.shape.layers:
        raise BadInput(f"--pipeline {ways.pipeline} is more than the {plan.subject.shape.layers} layers", code="TL231")
    for name, degrees in _legal(plan):
        asked = getattr(ways, name)
        if name != "pipeline" and asked not in degrees:
            known = ", ".join(map(str, degrees[:16]))
            raise BadInput(f"--{name} {asked} does not divide this model; legal: {known}", code="TL231")
    if ways.expert > 1 and (plan.subject.shape is None or not plan.subject.shape.experts):
        raise BadInput("--expert divides experts, and this model has none", code="TL231")


def _changes(plan: Training, device: Device, devices: int, ways: Ways) -> Iterator[Finding]:
    """One thing changed at a time, kept where the work then fits."""

    def fits(other: Training, way: Ways = ways, count: int = devices) -> bool:
        return placed(other, device, count, way).fits is True

    if plan.recompute != "full" and fits(replace(plan, recompute="full")):
        yield change("recompute", recompute="full")
    if plan.loss != "fused" and fits(replace(plan, loss="fused")):
        yield change("loss", loss="fused")
    tokens = 256 * _largest(lambda pages: fits(replace(plan, context=256 * pages)), plan.context // 256)
    if tokens:
        yield change("context", context=tokens)
    if plan.batch > 1 and fits(replace(plan, batch=1)):
        yield change("batch", batch=1)
    if plan.method == "full":
        narrower = [name for name in OPTIMIZERS if OPTIMIZERS[name] < OPTIMIZERS[plan.optimizer]]
        usual = [name for name in ("adamw-bf16", "adamw-8bit") if name in narrower]
        found = next((name for name in usual if fits(replace(plan, optimizer=name))), None)
        if found:
            yield change("optimizer", optimizer=found)
        if "master" in plan.layout and fits(replace(plan, layout="16-bit-8-bit-optimizer", optimizer="adamw-8bit")):
            yield change("layout", bytes_each=LAYOUTS["16-bit-8-bit-optimizer"].total)
    if ways.zero < 3 and fits(plan, replace(ways, zero=3)):
        yield change("zero", zero=3)
    for method in ("lora", "qlora"):
        less = plan.method == "full" or (plan.method, method) == ("lora", "qlora")
        if less and fits(replace(plan, method=method)):
            yield change("method", method=method)
            break
    more = fewest(plan, device, ways)
    if more is not None and more.devices > devices:
        yield change("more-devices", devices=more.devices, device=device.name)


def _most(plan: Training, device: Device, devices: int, ways: Ways, asked: Placement) -> Iterator[Figure]:
    if asked.needed.value is None or not asked.fits:
        return
    batch = _largest(lambda size: placed(replace(plan, batch=size), device, devices, ways).fits is True, 1 << 16)
    yield Figure("most-batch", batch, "sequences")
    tokens = _largest(
        lambda pages: placed(replace(plan, context=256 * pages), device, devices, ways).fits is True,
        _MOST_TOKENS // 256,
    )
    yield Figure("most-context", 256 * tokens, "tokens")


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` that still fits; 0 where not even 1 does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
