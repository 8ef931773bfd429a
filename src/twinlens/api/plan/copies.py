"""Devices divided into copies of a model: in the layout that was asked for, or in the one that keeps the target."""

from __future__ import annotations

import math
from dataclasses import replace

from twinlens.api.plan.number import UNREADABLE, count_of
from twinlens.errors import BadInput
from twinlens.planning.capacity.target import Target, answer_at, is_rate, load_of
from twinlens.planning.figure import assumed
from twinlens.planning.fit.answer import copy_layouts, may_group, tensor_degrees
from twinlens.planning.fit.serving_answer import refuse_impossible
from twinlens.planning.prediction.answer import plan_of, room, serving_answer
from twinlens.planning.prediction.band import Calibrated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.record.finding import Finding

_DEGREES = (1, 2, 4, 8, 16, 32, 64, 72)
Copy = tuple[int, int]
"""Tensor degree and groups of one copy."""


def placed(
    whole: ServingQuestion, devices: object, tensor: object, groups: object, known: Calibrated, target: Target,
    notes: list[Finding],
) -> tuple[ServingQuestion, int]:  # fmt: skip
    """One copy with its share of the load, and how many copies there are.

    Without a layout, the smallest that keeps the target at this load, or that comes nearest to it: a tensor group, or
    groups that share the experts. Without a number of devices, the smallest with room for one sequence. Raises BadInput
    where none has, and (TL231) where a layout does not divide the devices.
    """
    many = None if devices is None else count_of("devices", devices)
    asked = {name: count_of(name, word) for name, word in (("tensor", tensor), ("groups", groups)) if word is not None}
    if asked:
        copy = asked.get("tensor", 1), asked.get("groups", 1)
    else:
        roomy = with_room(whole, many or max(8, whole.device.domain), known)
        legal = [each for each in roomy if many and many % math.prod(each) == 0] or roomy[:1]
        copy = _best(whole, many or math.prod(legal[0]), legal, known, target)
        notes += [assumed("capacity-groups", copy[1], tensor=copy[0])] if copy[1] > 1 else []
        notes += [assumed("capacity-tensor", copy[0])] if copy[1] == 1 < copy[0] else []
    each, many = math.prod(copy), many or math.prod(copy)
    if many % each:
        named = " × ".join(f"--{name} {degree}" for name, degree in asked.items())
        raise BadInput(f"--devices {many} does not divide by {named}", code=UNREADABLE)
    refuse_impossible(replace(plan_of(whole), groups=copy[1]), copy[0])
    return share_of(whole, many, copy), many // each


def share_of(whole: ServingQuestion, many: int, copy: Copy) -> ServingQuestion:
    """One of the copies with its share of the load."""
    copies = many // math.prod(copy)
    users = None if whole.users is None else max(whole.users / copies, 1.0)
    rate = None if whole.requests_per_s is None else whole.requests_per_s / copies
    return replace(whole, tensor=copy[0], data=copy[1], users=users, requests_per_s=rate)


def with_room(whole: ServingQuestion, most: int, known: Calibrated) -> list[Copy]:
    """Legal layouts of a copy with room for one sequence, on up to `most` devices, the smallest first.

    Raises BadInput where none has it.
    """
    legal = [(degree, 1) for degree in tensor_degrees(whole.shape, most) if degree in _DEGREES]
    largest = replace(whole, tensor=legal[-1][0])
    if may_group(whole.device) and plan_of(whole).runtime.shares_experts:
        legal += copy_layouts(whole.shape, most)
    legal.sort(key=lambda copy: (math.prod(copy), copy[1]))
    roomy = [copy for copy in legal if room(replace(whole, tensor=copy[0], data=copy[1])) >= 1]
    if not roomy:
        serving_answer(replace(largest, users=1.0, requests_per_s=None), known)
    return roomy or [(1, 1)]


def _best(whole: ServingQuestion, many: int, legal: list[Copy], known: Calibrated, target: Target) -> Copy:
    """The first layout that keeps the target, else the one whose times are nearest to it."""
    if len(legal) == 1:
        return legal[0]
    shares = {copy: share_of(whole, many, copy) for copy in legal}
    times = {copy: _times_over(share, known, target) for copy, share in shares.items()}
    crowded = {copy: not is_rate(share) and load_of(share) > room(share) for copy, share in shares.items()}

    def missed(copy: Copy) -> tuple[bool, float, int, int]:
        return times[copy] > 1 or crowded[copy], max(times[copy], 1.0), math.prod(copy), copy[1]

    return min(legal, key=missed)


def _times_over(copy: ServingQuestion, known: Calibrated, target: Target) -> float:
    """The latencies over their limits, the larger of the two; infinite where the queue has no end."""
    load = copy.requests_per_s if is_rate(copy) else copy.users
    answer = answer_at(copy, float(load or 0), known)
    if answer is None:
        return float("inf")
    tail = (answer.tail.ttft_s, answer.tail.tpot_s)
    ttft_s, tpot_s = tail if target.of == "p99" else (answer.ttft_s.value, answer.tpot_s.value)
    pairs = ((ttft_s, target.ttft_s), (tpot_s, target.tpot_s))
    return max((value / limit for value, limit in pairs if limit is not None), default=0.0)
