"""Fit of serving: on the device asked for, on how many of each other, and what would change the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from twinlens.errors import BadInput
from twinlens.planning.fit.answer import (
    Fit,
    Placement,
    change,
    copy_layouts,
    group_degrees,
    may_group,
    pipeline_degrees,
    tensor_degrees,
    usable,
)
from twinlens.planning.fit.serving import Serving, most_sequences, one_user, serving_parts
from twinlens.record.finding import Finding
from twinlens.spec.device import Device
from twinlens.theory.figure import Figure

MOST_TENSOR = 16
_NARROWER_KV = (("fp8", 1.0), ("int4", 0.5))
_NARROWER_WEIGHTS = ("fp8", "awq-int4-g128")


def placed(plan: Serving, device: Device, tensor: int = 1) -> Placement:
    """Serving on `tensor` devices of one kind for each stage of the pipeline, of each group."""
    parts = serving_parts(plan, device.known_memory_bytes, tensor)
    room = usable(device, plan.runtime.memory_share, plan.runtime.name)
    split = {"tensor": tensor, "pipeline": plan.pipeline, "groups": plan.groups}
    return Placement(device.name, tensor * plan.pipeline * plan.groups, parts, room, split)


def fewest(plan: Serving, device: Device) -> Placement | None:
    """The fewest devices of one kind on which it fits, by legal tensor degrees, else by groups that share experts.

    None where neither does.
    """
    most = min(MOST_TENSOR, max(8, device.domain))
    shapes = [each.subject.shape for each in (plan, *plan.beside)]
    legal = [set(tensor_degrees(shape, most)) if shape else {1, 2, 4, 8} for shape in shapes]
    degrees = [(plan, degree) for degree in sorted(set.intersection(*legal))]
    tried = (*degrees, *(grouped(plan, max(64, device.domain)) if may_group(device) else ()))
    return next((each for one, degree in tried if (each := placed(one, device, degree)).fits), None)


def grouped(plan: Serving, most: int) -> tuple[tuple[Serving, int], ...]:
    """The plan in groups that share experts, with the tensor degree of each, the fewest devices first.

    None of a model without experts, of several models, of stages, and of a runtime that has no such groups.
    """
    shape = plan.subject.shape
    if shape is None or plan.beside or plan.like or plan.pipeline > 1 or not plan.runtime.shares_experts:
        return ()
    return tuple((replace(plan, groups=groups), tensor) for tensor, groups in copy_layouts(shape, most))


def divided(plan: Serving, devices: int, device: Device | None) -> tuple[Serving, int]:
    """The plan on so many devices, and the tensor degree: all of a stage and group, where heads can be so divided.

    Where they cannot, and nobody named groups, experts are shared by groups: the first in which it fits, else the last.
    """
    tensor = max(1, devices // (plan.pipeline * plan.groups))
    shape = plan.subject.shape
    if shape is None or plan.groups > 1 or tensor in tensor_degrees(shape, tensor):
        return plan, tensor
    ways = [(one, degree) for one, degree in grouped(plan, devices) if degree * one.groups == devices]
    fitting = (way for way in ways if device is not None and placed(way[0], device, way[1]).fits)
    return next(fitting, ways[-1] if ways else (plan, tensor))


def serving_answer(plan: Serving, device: Device | None, tensor: int, devices: Sequence[Device]) -> Fit:
    """The answer. `devices`: the catalogue, from which others are proposed."""
    for served in (plan, *plan.beside):
        refuse_impossible(served, tensor)
    asked = placed(plan, device, tensor) if device else None
    others = tuple(each for one in devices if one.form != "processor" and (each := fewest(plan, one)) is not None)
    others = tuple(sorted(others, key=lambda each: (each.devices, each.usable.number)))
    if asked is None or device is None:
        return Fit(plan, None, others, legal=_legal(plan))
    changes = tuple(_changes(plan, device, tensor, asked))
    return Fit(plan, asked, others, changes, tuple(_most(plan, asked, device)), _legal(plan))


def _legal(plan: Serving) -> tuple[tuple[str, tuple[int, ...]], ...]:
    shape = plan.subject.shape
    if shape is None:
        return ()
    found = (("tensor", tensor_degrees(shape, 64)), ("pipeline", pipeline_degrees(shape, 64)))
    return (*found, ("groups", group_degrees(shape, 1, 128))) if shape.experts else found


def refuse_impossible(plan: Serving, tensor: int) -> None:
    """Raises BadInput (TL231) for a degree that does not divide the heads, or a context beyond the model's."""
    shape = plan.subject.shape
    if shape is None:
        return
    if plan.pipeline > shape.layers:
        raise BadInput(f"--pipeline {plan.pipeline} is more than the {shape.layers} layers", code="TL231")
    degrees = tensor_degrees(shape, 1024)
    if tensor not in degrees:
        known = ", ".join(map(str, degrees[:12]))
        raise BadInput(
            f"{tensor} devices cannot divide {shape.heads} heads ({shape.kv_heads} KV heads) evenly; legal: {known}; "
            f"more devices serve as copies: plan capacity",
            code="TL231",
        )
    _check_groups(plan, tensor)
    if plan.context > shape.max_context:
        raise BadInput(
            f"--context {plan.context:,} is more than the {shape.max_context:,} positions of {plan.subject.name}",
            code="TL231",
        )


def _check_groups(plan: Serving, tensor: int) -> None:
    """Raises BadInput (TL231) for groups that have no experts to share, or fewer experts than devices."""
    shape = plan.subject.shape
    if plan.groups == 1:
        return
    if shape is None or shape.experts is None:
        raise BadInput("--groups share experts, and this model has none; use copies of it instead", code="TL231")
    if tensor * plan.groups > shape.experts.count:
        raise BadInput(
            f"--groups {plan.groups} on {tensor} devices each are more than the {shape.experts.count} experts",
            code="TL231",
        )
    if not plan.runtime.shares_experts:
        raise BadInput(f"--groups is not of {plan.runtime.name}; leave it out, or add --runtime vllm", code="TL231")


def _most(plan: Serving, asked: Placement, device: Device) -> Iterator[Figure]:
    users, context = most_users(plan, asked, device), most_context(plan, asked)
    if users is not None:
        yield Figure("most-users", users, "users")
    if context is not None:
        yield Figure("most-context", context, "tokens")


def _room(asked: Placement) -> float | None:
    """Bytes for the cache on each device."""
    left, kv = asked.left_bytes, next((part.value for part in asked.parts if part.name == "kv"), None)
    return None if left is None or kv is None else left + float(kv)


def most_users(plan: Serving, asked: Placement, device: Device) -> int | None:
    """Users with that context of which the cache fits; None where it cannot be said."""
    room, kv = _room(asked), next(part for part in asked.parts if part.name == "kv")
    if room is None or not kv.value:
        return None
    if plan.like or plan.beside:  # what a run measured, and others beside it, are of this number of users
        return max(0, int(room * plan.users // float(kv.value)))
    return int(most_sequences(plan, asked.usable.number, device.known_memory_bytes, asked.split["tensor"]))


def most_context(plan: Serving, asked: Placement) -> int | None:
    """Tokens that each of the users may have, in whole pages; None where it cannot be said."""
    room, shape = _room(asked), plan.subject.shape
    kv = next(part for part in asked.parts if part.name == "kv")
    if room is None or shape is None or not kv.value:
        return None
    each = room / float(kv.value) * one_user(plan, shape).number
    block = plan.runtime.block
    low, high = 0, max(1, shape.max_context // block)
    while low < high:  # the cache grows with the context, if not always in proportion
        middle = (low + high + 1) // 2
        fits = one_user(replace(plan, context=middle * block), shape).number <= each
        low, high = (middle, high) if fits else (low, middle - 1)
    return low * block


def _changes(plan: Serving, device: Device, tensor: int, asked: Placement) -> Iterator[Finding]:
    """One thing changed at a time, kept where the work then fits."""
    if asked.fits is not False:
        return
    yield from _copies(plan, device, tensor)
    users, context = most_users(plan, asked, device), most_context(plan, asked)
    if users:
        yield change("users", users=users)
    if context:
        yield change("context", context=context)
    if plan.sequences is None and placed(replace(plan, sequences=plan.users), device, tensor).fits:
        yield change("sequences", sequences=plan.users, runtime=plan.runtime.name)
    alone = [*_narrower_kv(plan, device, tensor), *_narrower_weights(plan, device, tensor)]
    yield from alone or _both(plan, device, tensor)
    more = fewest(plan, device)
    if more is not None and more.devices > asked.devices:
        shared = more.split["groups"] > 1
        yield change("devices-groups" if shared else "devices", devices=more.devices, device=device.name, **more.split)


def _copies(plan: Serving, device: Device, tensor: int) -> Iterator[Finding]:
    """The fewest copies on the same devices that hold their share of the users, as `plan capacity` divides them."""
    shape = plan.subject.shape
    if shape is None or plan.beside or plan.like or plan.pipeline * plan.groups > 1:
        return
    for degree in sorted((each for each in tensor_degrees(shape, tensor - 1) if tensor % each == 0), reverse=True):
        one = replace(plan, users=-(-plan.users * degree // tensor))
        if placed(one, device, degree).fits:
            yield change("copies", copies=tensor // degree, users=one.users, device=device.name, tensor=degree)
            return


def _narrower_kv(plan: Serving, device: Device, tensor: int) -> Iterator[Finding]:
    """The widest narrower format of the cache with which it fits."""
    for name, size in _NARROWER_KV:
        other = replace(plan, kv_format=name, kv_element_bytes=size)
        if size < plan.kv_element_bytes and placed(other, device, tensor).fits:
            yield change("kv", kv=name)
            return


def _narrower_weights(plan: Serving, device: Device, tensor: int) -> Iterator[Finding]:
    """The widest narrower format of the weights with which it fits."""
    for name in _NARROWER_WEIGHTS:
        if _is_narrower(plan, name) and placed(replace(plan, weight_format=name), device, tensor).fits:
            yield change("weights", weights=name)
            return


def _is_narrower(plan: Serving, name: str) -> bool:
    return plan.subject.weight_bits(name) < 0.99 * plan.subject.weight_bits(plan.weight_format)


def _both(plan: Serving, device: Device, tensor: int) -> Iterator[Finding]:
    """Weights and cache both narrower, where neither is enough alone."""
    for weights in (name for name in _NARROWER_WEIGHTS if _is_narrower(plan, name)):
        for kv, size in _NARROWER_KV:
            both = replace(plan, weight_format=weights, kv_format=kv, kv_element_bytes=size)
            if size < plan.kv_element_bytes and placed(both, device, tensor).fits:
                yield change("weights-and-kv", weights=weights, kv=kv)
                return
