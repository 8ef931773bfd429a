"""Laws as rows: each has the unit of its formula, agrees with the function of theory, and can be turned round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from twinlens.spec.model.reference import load_model
from twinlens.theory.collective import collective_time_s
from twinlens.theory.flop import optimizer_flop
from twinlens.theory.law import LAWS, QUANTITIES, Law
from twinlens.theory.memory import kv_bytes_per_token
from twinlens.theory.parameter import parameters
from twinlens.theory.roofline import (
    batch_at_ridge,
    expected_tokens,
    intensity,
    ridge_point,
    speed_up,
    time_floor_s,
)
from twinlens.theory.sharding import Split, bubble_share
from twinlens.theory.waiting.batching import continuous_time, dynamic_time
from twinlens.theory.waiting.servers import pollaczek_khinchine
from twinlens.theory.waiting.shared import steps_in_gaps_per_s

Unit = Counter[str]
_WHOLE = {"w": "j/s", "share": "1", "$": "dollar"}
_ALL = list(LAWS.values())
_SEVERAL = {("speculation", "drafts"), *(("time-floor", name) for name in LAWS["time-floor"].inputs)}
"""Inputs of which several values give the same: more drafts are worth more, and then less; another roof binds."""


def unit(text: str) -> Unit:
    """The exponents of a unit: "bytes/token" is byte 1, token -1."""
    found: Unit = Counter()
    for place, part in enumerate(text.split("/")):
        for name in part.split("·"):
            sign = 1 if place == 0 else -1
            if "/" in (whole := _WHOLE.get(name, name)):
                found.update({each: sign * power for each, power in unit(whole).items()})
            elif whole != "1":
                found[whole if len(whole) < 3 else whole.removesuffix("s")] += sign
    return Counter({name: power for name, power in found.items() if power})


class Dimensioned:
    """A unit under the operations of a formula; unlike ones cannot be added."""

    def __init__(self, of: Unit) -> None:
        self.of = of

    def _times(self, other: Dimensioned, sign: int) -> Dimensioned:
        names = {*self.of, *other.of}
        return Dimensioned(Counter({n: power for n in names if (power := self.of[n] + sign * other.of[n])}))

    def __mul__(self, other: Dimensioned) -> Dimensioned:
        return self._times(other, 1)

    def __truediv__(self, other: Dimensioned) -> Dimensioned:
        return self._times(other, -1)

    def __add__(self, other: Dimensioned) -> Dimensioned:
        assert self.of == other.of
        return self

    __sub__ = __add__

    def __pow__(self, other: Dimensioned) -> Dimensioned:
        assert self.of == other.of == Counter()
        return self


def _of_one_unit(one: Dimensioned, other: Dimensioned) -> Dimensioned:
    return one + other


@pytest.mark.parametrize("law", _ALL, ids=list(LAWS))
def test_a_formula_gives_the_unit_of_its_law(law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlens.theory.law._CALLS", {"min": _of_one_unit, "max": _of_one_unit})
    numbers = {name: Dimensioned(unit(each.unit)) for name, each in law.constants.items()}
    monkeypatch.setattr(Law, "_known", lambda self, values: {**numbers, **values})
    found = law.value({name: Dimensioned(unit(QUANTITIES[name])) for name in law.inputs})
    assert found.of == unit(law.unit)


def test_every_quantity_is_of_a_law_and_every_law_has_a_source() -> None:
    assert {name for law in _ALL for name in law.inputs} == set(QUANTITIES)
    assert all(law.title and law.source for law in _ALL)
    assert len({law.formula for law in _ALL}) == len(_ALL)


def _sizes(law: Law) -> st.SearchStrategy[dict[str, float]]:
    shares, sizes = st.floats(0.02, 0.98), st.floats(1.5, 1e4)
    return st.fixed_dictionaries({name: shares if QUANTITIES[name] == "share" else sizes for name in law.inputs})


@pytest.mark.parametrize("law", _ALL, ids=list(LAWS))
def test_an_input_computed_from_its_law_is_what_it_was(law: Law) -> None:
    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(_sizes(law))
    def check(values: Mapping[str, float]) -> None:
        if law.name == "break-even":
            assume(values["price-per-hour"] > 1.01 * values["own-per-hour"])  # else nothing is saved
        value = float(law.value(values))
        for name, was in values.items():
            rest = {each: number for each, number in values.items() if each != name}
            found = law.inverse(name, value, rest)
            slope = abs(float(law.value({**values, name: was * 1.001})) / value - 1)
            if slope < 1e-6:  # another input binds
                continue
            assert found is not None, name
            assert float(law.value({**rest, name: found})) == pytest.approx(value, rel=1e-7), name
            if (law.name, name) not in _SEVERAL:
                assert found == pytest.approx(was, rel=1e-5), name

    check()


def test_an_input_that_nothing_makes_right_is_none() -> None:
    assert LAWS["tokens-per-pass"].inverse("acceptance", 9.0, {"drafts": 3}) is None  # four at most
    assert LAWS["amdahl"].inverse("speed-up", 11.0, {"part": 0.9}) is None  # ten at most
    assert LAWS["bill"].inverse("tokens", -1.0, {"price-per-token": 1e-6}) is None


_FUNCTIONS: dict[str, Callable[[Mapping[str, float]], float]] = {
    "ridge": lambda v: ridge_point(v["peak"], v["bandwidth"]),
    "intensity": lambda v: intensity(v["flop"], v["bytes"]),
    "time-floor": lambda v: time_floor_s(v["flop"], v["bytes"], v["flop-per-s"], v["link-bandwidth"]).time_s,
    "ridge-batch": lambda v: batch_at_ridge(v["peak"], v["bandwidth"], v["bits"]),
    "tokens-per-pass": lambda v: expected_tokens(v["acceptance"], v["drafts"]),
    "speculation": lambda v: speed_up(v["acceptance"], v["drafts"], v["draft-cost"], v["check-cost"]),
    "bubble-share": lambda v: bubble_share(Split(pipeline=v["stages"], microbatches=v["microbatches"]), v["parts"]),
    "all-reduce-time": lambda v: collective_time_s("all-reduce", v["bytes"], v["ranks"], v["bus-bandwidth"]),
    "all-gather-time": lambda v: collective_time_s("all-gather", v["bytes"], v["ranks"], v["bus-bandwidth"]),
    "queue-wait": lambda v: pollaczek_khinchine(
        v["load"] / v["service-time"], v["service-time"], v["variability"] ** 2
    ),
    "batched-time": lambda v: continuous_time(
        v["load"] / (v["answer-tokens"] * v["step-row"]), v["answer-tokens"], v["step-fixed"], v["step-row"]
    ),
    "gathered-time": lambda v: dynamic_time(v["load"] / v["batch-row"], v["batch-fixed"], v["batch-row"]),
    "steps-in-gaps": lambda v: float(steps_in_gaps_per_s(v["load"], v["train-step"])),
}


@pytest.mark.parametrize("name", list(_FUNCTIONS))
def test_a_law_is_the_function_of_theory(name: str) -> None:
    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(_sizes(LAWS[name]))
    def check(values: Mapping[str, float]) -> None:
        assert float(LAWS[name].value(values)) == pytest.approx(float(_FUNCTIONS[name](values)), rel=1e-9)

    check()


def test_laws_of_a_model_are_what_theory_counts() -> None:
    shape = load_model("llama-3.1-8b").shape
    sizes = {"layers": shape.layers, "kv-heads": shape.kv_heads, "head-dim": shape.head_dim, "element-bytes": 2.0}
    assert LAWS["kv-per-token"].value(sizes) == kv_bytes_per_token(shape)
    assert LAWS["optimizer-flop"].value({"params": parameters(shape).total}) == optimizer_flop(shape)


@pytest.mark.parametrize(
    ("name", "values", "value"),
    [
        ("price-per-token", {"price-per-hour": 2.0, "rate": 2000.0}, 2.0 / (2000 * 3600)),
        ("in-flight", {"requests-per-second": 4.0, "latency": 2.5}, 10.0),
        ("amdahl", {"part": 0.9, "speed-up": 10.0}, 1 / 0.19),
        ("energy-per-token", {"power": 700.0, "rate": 3500.0}, 0.2),
        ("decode-time", {"weights": 40e9, "bandwidth": 1.79e12}, 40e9 / 1.79e12),
        ("queue-wait", {"load": 0.5, "variability": 1.0, "service-time": 2.0}, 2.0),
        ("batched-time", {"answer-tokens": 100, "step-fixed": 0.009, "step-row": 0.001, "load": 0.5}, 2.0),
        ("row-load", {"requests-per-second": 5.0, "answer-tokens": 100, "step-row": 0.001}, 0.5),
        ("gathered-time", {"batch-fixed": 0.01, "batch-row": 0.003, "load": 0.5}, 0.03 + 0.0015 * 2.5 / 0.75),
        ("steps-in-gaps", {"load": 0.6, "train-step": 0.1}, 4.0),
        ("all-reduce-time", {"ranks": 8, "bytes": 14e9, "bus-bandwidth": 450e9}, 1.75 * 14 / 450),
    ],
)
def test_values_worked_by_hand(name: str, values: Mapping[str, float], value: float) -> None:
    assert LAWS[name].value(values) == pytest.approx(value)


def test_values_may_be_arrays() -> None:
    found = LAWS["decode-time"].value({"weights": np.array([40e9, 80e9]), "bandwidth": 2e12})
    assert found == pytest.approx([0.02, 0.04])


def test_a_formula_is_shown_without_inputs_that_are_left_out() -> None:
    law = LAWS["price-per-token"]
    assert law.shown(("price-per-hour", "rate")) == ("{0} / ({1} × {2})", ("price-per-hour", "rate", "number_0"))
    assert LAWS["break-even"].shown(("money", "price-per-hour", "hours-per-month"))[0] == "{0} / ({1} × {2})"
    assert LAWS["stream-rate"].shown(("token-time",))[0] == "{0} / {1}"
