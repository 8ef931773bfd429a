"""Devices divided into copies of a model: the tensor degree that was asked for, or the one that keeps the target."""

from __future__ import annotations

from dataclasses import replace

from twinlens.api.plan.number import UNREADABLE, count_of
from twinlens.errors import BadInput
from twinlens.planning.capacity.limit import answer_at, is_rate
from twinlens.planning.capacity.target import Target
from twinlens.planning.figure import assumed
from twinlens.planning.prediction.answer import serving_answer
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.shipped import Calibrated
from twinlens.record.finding import Finding

_DEGREES = (1, 2, 4, 8, 16, 32, 64, 72)


def placed(
    whole: ServingQuestion, devices: object, tensor: object, known: Calibrated, target: Target, notes: list[Finding]
) -> tuple[ServingQuestion, int]:
    """One copy with its share of the load, and how many copies there are.

    Without a degree, the smallest that keeps the target at this load, or that comes nearest to it; without a number of
    devices, the smallest with room for one sequence. Raises BadInput where none has, and (TL231) where a degree does
    not divide the devices.
    """
    many = None if devices is None else count_of("devices", devices)
    if tensor is not None:
        degree = count_of("tensor", tensor)
    else:
        roomy = with_room(whole, many or max(8, whole.device.domain), known)
        legal = [each for each in roomy if many and many % each == 0] or roomy[:1]
        degree = _best(whole, many or legal[0], legal, known, target)
        notes += [assumed("capacity-tensor", degree)] if degree > 1 else []
    many = many or degree
    if many % degree:
        raise BadInput(f"--devices {many} does not divide by a tensor degree of {degree}", code=UNREADABLE)
    return share_of(whole, many, degree), many // degree


def share_of(whole: ServingQuestion, many: int, degree: int) -> ServingQuestion:
    """One of the copies with its share of the load."""
    copies = many // degree
    users = None if whole.users is None else max(whole.users / copies, 1.0)
    rate = None if whole.requests_per_s is None else whole.requests_per_s / copies
    return replace(whole, tensor=degree, users=users, requests_per_s=rate)


def with_room(whole: ServingQuestion, most: int, known: Calibrated) -> list[int]:
    """Legal tensor degrees with room for one sequence, up to `most`. Raises BadInput where none has it."""
    legal = [degree for degree in _DEGREES if degree <= most and whole.shape.heads % degree == 0]
    roomy = [degree for degree in legal if _has_room(replace(whole, tensor=degree), known)]
    if not roomy:
        serving_answer(replace(whole, tensor=legal[-1], users=1.0, requests_per_s=None), known)
    return roomy or [1]


def _has_room(question: ServingQuestion, known: Calibrated) -> bool:
    try:
        serving_answer(replace(question, users=1.0, requests_per_s=None), known)
    except BadInput:
        return False
    return True


def _best(whole: ServingQuestion, many: int, legal: list[int], known: Calibrated, target: Target) -> int:
    """The first degree that keeps the target, else the one whose times are nearest to it."""
    if len(legal) == 1:
        return legal[0]
    times = {degree: _times_over(share_of(whole, many, degree), known, target) for degree in legal}
    return min(legal, key=lambda degree: (max(times[degree], 1.0), degree))


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
