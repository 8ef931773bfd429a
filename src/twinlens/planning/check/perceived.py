"""Perceived speed as an SLO: users that a box serves while each of them gets so many tokens a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from twinlens.errors import BadInput
from twinlens.planning.prediction.answer import ServingAnswer, refuse_processor, room, serving_answer
from twinlens.planning.prediction.band import LEVEL, shipped
from twinlens.planning.prediction.place import is_calibrated_kind, is_rated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.record.finding import Finding
from twinlens.theory.figure import Figure, Input, absent

MOST_USERS = 4096


def users_at(question: ServingQuestion, speed: float, name: str) -> Figure:
    """Users in a closed loop at `speed` tokens/s or more for each, within the cache; the band is that of the TPOT.

    `question` is of one user. Absent where not even one is served, and where the format or model is not predicted.
    """
    try:
        refuse_processor(question.device, shipped()["serving"])
        alone = serving_answer(question)
    except BadInput:
        return absent(name, "users", _unknown(question, _lacking(question)))
    most = min(int(alone.most_sequences), MOST_USERS)
    low, taken, high = (_most(question, speed, of, most) for of in (_slow, _value, _quick))
    if not taken:
        return absent(name, "users", _unknown(question, "speed", speed=speed, alone=1 / alone.tpot_s.value))
    inputs = (Input("speed", speed, "tokens/s"), Input("tpot-alone", alone.tpot_s.value, "s", alone.fitted_on),
              Input("room", most, "users", "of whom the cache fits"))  # fmt: skip
    return Figure(
        name, taken, "users", "", inputs, low=min(low, taken), high=max(high, taken), level=LEVEL,
        source="planning/prediction: the most whose TPOT is at most 1 / speed",
    )  # fmt: skip


def _most(question: ServingQuestion, speed: float, of: Callable[[ServingAnswer], float], room: int) -> int:
    """The largest number of users whose time per token is short enough."""
    low, high = 0, max(room, 0)
    while low < high:
        middle = (low + high + 1) // 2
        quick = of(serving_answer(replace(question, users=float(middle)))) <= 1 / speed
        low, high = (middle, high) if quick else (low, middle - 1)
    return low


def _slow(answer: ServingAnswer) -> float:
    return answer.tpot_s.high


def _value(answer: ServingAnswer) -> float:
    return answer.tpot_s.value


def _quick(answer: ServingAnswer) -> float:
    return answer.tpot_s.low


def _lacking(question: ServingQuestion) -> str:
    """Why not even one user is predicted."""
    if not is_rated(question.device):
        return "device-rate"
    if not is_calibrated_kind(question.device):
        return "accelerator"
    try:
        return "room" if room(question) < 1 else "prediction"
    except BadInput:  # the format is not predicted
        return "prediction"


def _unknown(question: ServingQuestion, needs: str, **numbers: float) -> Finding:
    return Finding("plan-unknown", "warns", "users-at", {"model": question.model, "needs": needs, **numbers})
