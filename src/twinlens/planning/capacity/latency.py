"""Figures of latency: TTFT as prefill and wait, TPOT as its parts, and the rate that follows from both."""

from __future__ import annotations

import math
from typing import Any

from twinlens.planning.figure import End, Figure, Input, total
from twinlens.planning.prediction.answer import Said, ServingAnswer
from twinlens.planning.prediction.question import ServingQuestion

_SOURCE = "calibrated roofline"


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
        Figure(f"step-{name.removesuffix('_s')}", seconds, "s", source=_SOURCE)
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
                  rate("high"), rate("low"), ttft.level)  # fmt: skip


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
