"""Tails of latency: never below the mean, longer under more load, and near those of a simulated server."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.api.plan.capacity import capacity
from twinlens.errors import BadInput
from twinlens.planning.capacity.serving import ServingCapacity
from twinlens.planning.prediction.answer import serving_answer, serving_groups
from twinlens.planning.prediction.band import shipped
from twinlens.planning.prediction.place import Layout, rates_of
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.serving import interference
from twinlens.planning.prediction.step_time import decode_step
from twinlens.planning.prediction.work import stored, work_of
from twinlens.spec.catalogue import shipped as catalogue
from twinlens.spec.model.reference import load_model

SHAPE: Any = load_model("llama-3.1-8b").shape
KNOWN = shipped()["serving"]
PROMPTS = 4
"""Of 2,048 tokens each, as vLLM's budget of 8,192 tokens a step allows."""


def question(**load: float) -> ServingQuestion:
    card = catalogue().device("h100-sxm-80gb")
    return ServingQuestion("llama-3.1-8b", SHAPE, card, "bf16", 2048.0, 300.0, engine="vllm", **load)  # type: ignore[arg-type]


@given(load=st.one_of(st.builds(lambda n: {"users": float(n)}, st.integers(1, 400)),
                      st.builds(lambda r: {"requests_per_s": r}, st.floats(0.01, 9))))  # fmt: skip
def test_a_tail_is_never_below_the_mean(load: dict[str, float]) -> None:
    answer = serving_answer(question(**load))
    assert answer.tail.ttft_s >= answer.ttft_s.value
    assert answer.tail.tpot_s >= answer.tpot_s.value


def test_a_tail_grows_with_the_load() -> None:
    for name, loads in (("users", (1.0, 8.0, 64.0, 180.0)), ("requests_per_s", (0.1, 2.0, 6.0, 9.0))):
        tails = [serving_answer(question(**{name: load})).tail for load in loads]
        assert [each.ttft_s for each in tails] == sorted({each.ttft_s for each in tails})
        assert [each.tpot_s for each in tails] == sorted(each.tpot_s for each in tails)


def test_a_user_alone_has_no_slow_requests() -> None:
    alone = serving_answer(question(users=1.0))
    assert alone.tail.tpot_s == pytest.approx(alone.tpot_s.value, rel=0.02)
    assert alone.tail.ttft_s == pytest.approx(alone.ttft_s.value, rel=0.1)


@pytest.mark.parametrize("rate", [2.0, 6.0, 8.5])
def test_a_simulated_server_has_the_tail_within_a_quarter(rate: float) -> None:
    ttft, tpot = _simulated(rate, 4000)
    tail = serving_answer(question(requests_per_s=rate)).tail
    assert 0.75 < tail.ttft_s / ttft < 1.25
    assert 0.75 < tail.tpot_s / tpot < 1.25


def _simulated(rate: float, requests: int) -> tuple[float, float]:
    """p99 of TTFT and TPOT of a server that takes prompts into its steps, with this model's times."""
    asked = question(requests_per_s=rate)
    kept, fitted = stored("bf16", SHAPE), KNOWN.constants.at(serving_groups(asked))
    work, rates = work_of(SHAPE, kept), rates_of(asked.device, kept, "vllm")
    counts = np.arange(0.0, 400.0)
    steps = np.ravel(decode_step(work, rates, Layout(), fitted, counts, 2048.0 + 150.0).total_s)
    extra = [np.ravel(interference(work, rates, Layout(), fitted, 2048.0)(counts, n)) for n in range(1, PROMPTS + 1)]
    answer = serving_answer(asked)
    random = np.random.default_rng(1)
    due = np.cumsum(random.exponential(1 / rate, requests))
    waiting: deque[int] = deque()
    left: dict[int, int] = {}
    first, last = np.zeros(requests), np.zeros(requests)
    now, coming = 0.0, 0
    while coming < requests or waiting or left:
        if not waiting and not left:
            now = max(now, due[coming])
        while coming < requests and due[coming] <= now:
            waiting.append(coming)
            coming += 1
        begun = [waiting.popleft() for _ in range(min(len(waiting), PROMPTS))]
        now += (steps[len(left)] if left else 0.0) + (extra[len(begun) - 1][len(left)] * len(begun) if begun else 0.0)
        for each in list(left):
            left[each] -= 1
            if not left[each]:
                last[each] = now
                del left[each]
        for each in begun:
            first[each] = now
            left[each] = 300
    settled = slice(requests // 10, None)
    own = answer.prefill_s - float(extra[0].mean()) + float(fitted.arrive_s)
    return (
        float(np.quantile((first - due)[settled] + max(own, 0.0), 0.99)),
        float(np.quantile((last - first)[settled] / 300, 0.99)),
    )


def test_a_target_holds_for_99_of_100_requests_unless_the_mean_is_asked_for() -> None:
    asked: dict[str, Any] = {
        "device": "H100",
        "rate": 1,
        "prompt": "2K",
        "answer": 300,
        "ttft": "150ms",
        "tpot": "25ms",
    }
    slow, mean = (_most(capacity("8B", **asked, **more).answer) for more in ({}, {"of": "mean"}))
    assert slow < mean
    with pytest.raises(BadInput, match="p99"):
        capacity("8B", **asked, of="p98")


def test_a_tail_shows_its_far_end_or_that_there_is_none() -> None:
    found = capacity("8B", device="H100", rate=6, prompt="2K", answer=300).answer
    assert isinstance(found, ServingCapacity)
    for tail, mean in zip(found.tails, found.figures, strict=False):
        assert tail.level is None
        assert tail.low == mean.low
        assert float(tail.high or 0) > float(mean.high or 0)
    near = capacity("8B", device="H100", rate=10, prompt="2K", answer=300).answer
    assert isinstance(near, ServingCapacity)
    assert [each.high for each in near.tails] == [None, None]


def _most(answer: Any) -> float:
    return float(answer.most.value)
