"""Targets that a served load has to keep, and head-room that is bought beyond the load."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.planning.kept import keeps
from twinlens.planning.prediction.answer import Said, ServingAnswer, TrainingAnswer, serving_answer
from twinlens.planning.prediction.band import FLOOR, Calibrated
from twinlens.planning.prediction.question import ServingQuestion, TrainingQuestion
from twinlens.record.finding import Finding
from twinlens.theory.figure import End, Figure, Input, total

Of = Literal["p99", "mean"]


@dataclass(frozen=True, slots=True)
class Target:
    """Limits of TTFT and TPOT in seconds; None: no limit. `of`: what keeps them, 99 of 100 requests or their mean."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    of: Of = "p99"

    def missed_by(self, answer: ServingAnswer, end: str = "value") -> str | None:
        """The first limit that is not kept: "ttft", "tpot", or None. `end`: "value", "low" or "high" of the bands."""
        ttft_s, tpot_s = end_of(answer.ttft_s, end), end_of(answer.tpot_s, end)
        if self.of == "p99":
            ttft_s *= answer.tail.ttft_s / answer.ttft_s.value
            tpot_s *= answer.tail.tpot_s / answer.tpot_s.value
        if self.tpot_s is not None and tpot_s > self.tpot_s:
            return "tpot"
        return "ttft" if self.ttft_s is not None and ttft_s > self.ttft_s else None

    def inputs(self) -> tuple[Input, ...]:
        limits = (("ttft-limit", self.ttft_s), ("tpot-limit", self.tpot_s))
        return tuple(Input(name, value, "s") for name, value in limits if value is not None)


@dataclass(frozen=True, slots=True)
class Headroom:
    """The load at its peak over the load, and copies of the model that may fail at a time.

    Raises BadInput (TL231) for a peak below 1, and for a negative number of copies.
    """

    peak: float = 1.0
    spare: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.peak <= 1000:
            raise BadInput(f"--peak is the peak over the mean load, from 1 up, not {self.peak:g}", code="TL231")
        if not 0 <= self.spare <= 1000:
            raise BadInput(f"--spare is a count of copies from 0 up, not {self.spare}", code="TL231")


def end_of(said: Said, end: str) -> float:
    """ "value", or the "low" or "high" end of its band."""
    return float(getattr(said, end))


# Figures of latency: TTFT as prefill and wait, TPOT as its parts, and the rate that follows from both.

_SOURCE = "calibrated roofline"
_LAWS = {"weights_s": "decode-time"}
"""Parts of a step that a law gives, but for what calibration multiplies it by."""


def ttft_figure(answer: ServingAnswer, question: ServingQuestion) -> Figure:
    """Seconds to the first token: the prompt's own prefill, and the wait before it."""
    prompt = Input("prompt", question.prompt, "tokens")
    prefill = Figure("prefill", answer.prefill_s, "s", inputs=(prompt,), source=_SOURCE)
    there = Input("decoding", answer.batch, "sequences", "the fixed point")
    wait = Figure("wait", answer.wait_s, "s", inputs=(there,), source="others' prefills, the step under way, a place")
    return total("ttft", "s", (prefill, wait), source=answer.fitted_on, **band_of(answer.ttft_s))


def tpot_figure(answer: ServingAnswer) -> Figure:
    """Seconds between tokens: parts of a step, and what prefills of others add to it."""
    parts = [
        Figure(f"step-{name.removesuffix('_s')}", seconds, "s", source=_SOURCE, law=_LAWS.get(name))
        for name, seconds in answer.step_parts_s.items()
        if seconds > 0
    ]
    rest = answer.tpot_s.value - sum(each.number for each in parts)
    if rest > 1e-9 * answer.tpot_s.value:  # one user alone has no others
        parts.append(Figure("step-prefills", rest, "s", source="prefills of others between the steps"))
    return total("tpot", "s", parts, source=answer.fitted_on, **band_of(answer.tpot_s))


def requests_figure(load: float, unit: str, length: float, ttft: Figure, tpot: Figure) -> Figure:
    """Requests finished per second. Users who ask again at once give what their latencies allow, with its band."""
    if unit != "users":
        return Figure("requests", load, unit, inputs=(Input("load", load, unit),))

    def rate(end: End) -> float:
        return load / (ttft.end(end) + length * tpot.end(end))

    inputs = (Input("load", load, unit), ttft, Input("answer", length, "tokens"), tpot)
    return Figure("requests", rate("value"), "requests/s", "{0} / ({1} + {2} × {3})", inputs,
                  rate("high"), rate("low"), ttft.level, law="in-flight")  # fmt: skip


def tail_figures(answer: ServingAnswer, slower: ServingAnswer | None) -> tuple[Figure, Figure]:
    """p99 of TTFT and of TPOT, from the mean's low end to p99 at the slow end of the band (`slower`: where all times
    are longer by the band of TPOT, None where the queue then has no end). The band has no level: nothing measured it.
    """
    pairs = (("ttft-p99", "ttft_s"), ("tpot-p99", "tpot_s"))
    return tuple(_tail(name, which, answer, slower) for name, which in pairs)  # type: ignore[return-value]


def _tail(name: str, which: str, answer: ServingAnswer, slower: ServingAnswer | None) -> Figure:
    mean, value = getattr(answer, which), float(getattr(answer.tail, which))
    far = None if slower is None else float(getattr(slower.tail, which))
    high = None if far is None or not math.isfinite(far) else max(far, value) * mean.high / mean.value
    return Figure(name, value, "s", inputs=(Input("decoding", answer.batch, "sequences", "the fixed point"),),
                  low=mean.low, high=high, source="a queue of prompts, and processor sharing of the steps")  # fmt: skip


def band_of(said: Said) -> dict[str, Any]:
    """The band of a prediction, as a figure takes it."""
    return {"low": said.low, "high": said.high, "level": said.level}


# Remarks on a prediction: its band, what calibration had not seen, and how far beyond its range it lies.

NOT_CONSIDERED = "disaggregation, prefix caching, speculative decoding"


def remarks_of(
    answer: ServingAnswer | TrainingAnswer | None, question: ServingQuestion | TrainingQuestion
) -> tuple[Finding, ...]:
    """Findings on one prediction."""
    if answer is None:
        return ()
    if isinstance(answer, TrainingAnswer):
        bands = [_band("step", answer.step_s, "training")]
    else:
        bands = [_band("tpot", answer.tpot_s, "serving"), _band("ttft", answer.ttft_s, "serving"),
                 Finding("plan-tail", "notes", question.model), not_considered(question.model)]  # fmt: skip
    names: dict[str, Any] = {"device": question.device.name, "engine": question.engine, "model": question.model}
    unseen = {kind: names[kind] for kind in answer.unseen}
    seen = [Finding("plan-unseen", "warns", ",".join(unseen), unseen)] if unseen else []
    beyond = [Finding("plan-beyond", "warns", name, {"times": times}) for name, times in answer.distance.items()]
    near = [] if seen or beyond else [Finding("plan-within", "notes", question.model)]
    return (*bands, *near, *seen, *beyond)


def not_considered(model: str) -> Finding:
    """What a server can do that no prediction of serving here counts."""
    return Finding("plan-not-considered", "notes", model, {"what": NOT_CONSIDERED})


def _band(metric: str, said: Said, lens: str) -> Finding:
    numbers = {"low": said.band.low, "high": said.band.high, "level": said.level, "rows": said.band.rows,
               "kind": said.band.kind, "floor": FLOOR[lens]}  # fmt: skip
    return Finding("plan-band", "notes", metric, numbers)


# The largest load of one copy that keeps a target, as it is predicted and at both ends of the band.

_MOST_USERS = 1 << 16
_CLOSE = 1.002
"""Rates are found within 0.2 %."""
_LEAST_RATE, _MOST_RATE = 1e-3, 1e9


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


def answer_at(
    question: ServingQuestion, load: float, known: Calibrated, lightest: ServingAnswer | None = None
) -> ServingAnswer | None:
    """The answer at another load of the same kind; None where the queue has no end. `lightest`: that to one user, where
    it is known that there is room for it.

    Raises BadInput where one sequence has no room.
    """
    if not is_rate(question):
        return serving_answer(replace(question, users=load), known)
    if lightest is None:
        lightest_of(question, known)
    try:
        return serving_answer(replace(question, requests_per_s=load), known)
    except BadInput:
        return None


def lightest_of(question: ServingQuestion, known: Calibrated) -> ServingAnswer:
    """The answer to one user alone. Raises BadInput where one sequence has no room."""
    return serving_answer(replace(question, requests_per_s=None, users=1.0), known)


def what_stops(
    question: ServingQuestion, load: float, target: Target, known: Calibrated, end: str,
    lightest: ServingAnswer | None = None,
) -> str | None:  # fmt: skip
    """What a load does not keep to: "ttft", "tpot", "room" or "queue"; None where it keeps to all.

    At an `end` of the band all times are that much longer or shorter, so that a queue fills at another rate, too.
    `lightest`: the answer to one user alone, where it is known already.
    """
    slower = 1.0
    if is_rate(question):
        lightest = lightest or lightest_of(question, known)
        slower = 1.0 if end == "value" else end_of(lightest.tpot_s, end) / lightest.tpot_s.value
    answer = answer_at(question, load * slower, known, lightest)
    if answer is None:
        return "queue"
    missed = target.missed_by(answer, end)
    return missed or ("room" if not is_rate(question) and load > answer.most_sequences else None)


def most_load(
    question: ServingQuestion, target: Target, known: Calibrated, end: str = "value", near: float | None = None
) -> float:
    """The largest load that keeps to the target, whole users or requests/s; 0 where none does. `near`: where it is
    looked for first, which changes how soon it is found and not what."""
    asked = replace(question, requests_per_s=1.0) if is_rate(question) else replace(question, users=1.0)
    return _most_load(asked, target, known, end, near)


@keeps(12)
def _most_load(question: ServingQuestion, target: Target, known: Calibrated, end: str, near: float | None) -> float:
    """The same of a question whose own load is 1, since it does not matter."""
    lightest = lightest_of(question, known) if is_rate(question) else None

    def fits(load: float) -> bool:
        return what_stops(question, load, target, known, end, lightest) is None

    return _rate(fits, near or _LEAST_RATE) if is_rate(question) else float(_users(fits))


def _users(fits: Callable[[float], bool]) -> int:
    low, high = 0, 1
    while high < _MOST_USERS and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _rate(fits: Callable[[float], bool], near: float) -> float:
    """Powers of 4 times the least rate around it, from the one below `near`; then halves of that span."""
    low = _LEAST_RATE * 4.0 ** max(math.floor(math.log(max(near, _LEAST_RATE) / _LEAST_RATE, 4)), 0)
    while not fits(low):
        low /= 4
        if low < _LEAST_RATE:
            return 0.0
    high = 4 * low
    while high < _MOST_RATE and fits(high):
        low, high = high, 4 * high
    while high / low > _CLOSE:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
