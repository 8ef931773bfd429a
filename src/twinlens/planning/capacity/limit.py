"""The largest load of one copy that keeps a target, as it is predicted and at both ends of the band."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from twinlens.errors import BadInput
from twinlens.planning.capacity.target import Target, end_of
from twinlens.planning.prediction.answer import ServingAnswer, serving_answer
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.shipped import Calibrated

_MOST_USERS = 1 << 16
_CLOSE = 1.002
"""Rates are found within 0.2 %."""


def is_rate(question: ServingQuestion) -> bool:
    """Whether requests arrive at random, at a rate; else users ask again as soon as they have an answer."""
    return question.users is None


def load_of(question: ServingQuestion) -> float:
    """Requests per second, or users."""
    if question.requests_per_s is not None:
        return question.requests_per_s
    if question.users is None:
        raise ValueError("a question has users or a rate")
    return question.users


def answer_at(question: ServingQuestion, load: float, known: Calibrated) -> ServingAnswer | None:
    """The answer at another load of the same kind; None where the queue has no end.

    Raises BadInput where one sequence has no room.
    """
    if not is_rate(question):
        return serving_answer(replace(question, users=load), known)
    serving_answer(replace(question, requests_per_s=None, users=1.0), known)  # says whether there is room at all
    try:
        return serving_answer(replace(question, requests_per_s=load), known)
    except BadInput:
        return None


def what_stops(question: ServingQuestion, load: float, target: Target, known: Calibrated, end: str) -> str | None:
    """What a load does not keep to: "ttft", "tpot", "room" or "queue"; None where it keeps to all.

    At an `end` of the band all times are that much longer or shorter, so that a queue fills at another rate, too.
    """
    slower = 1.0
    if is_rate(question) and end != "value":
        lightest = serving_answer(replace(question, requests_per_s=None, users=1.0), known)
        slower = end_of(lightest.tpot_s, end) / lightest.tpot_s.value
    answer = answer_at(question, load * slower, known)
    if answer is None:
        return "queue"
    missed = target.missed_by(answer, end)
    return missed or ("room" if not is_rate(question) and load > answer.most_sequences else None)


def most_load(question: ServingQuestion, target: Target, known: Calibrated, end: str = "value") -> float:
    """The largest load that keeps to the target, whole users or requests/s; 0 where none does."""

    def fits(load: float) -> bool:
        return what_stops(question, load, target, known, end) is None

    return _rate(fits) if is_rate(question) else float(_users(fits))


def _users(fits: Callable[[float], bool]) -> int:
    low, high = 0, 1
    while high < _MOST_USERS and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _rate(fits: Callable[[float], bool]) -> float:
    low = high = 1e-3
    if not fits(low):
        return 0.0
    while high < 1e9 and fits(high):
        low, high = high, 4 * high
    while high / low > _CLOSE:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
