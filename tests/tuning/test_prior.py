"""A candidate predicted to miss its limit by twice the band is left out; where nothing is predicted, all stay."""

from __future__ import annotations

from typing import Any

from material import inference, spec_of, training
from twinlens.spec.catalogue import shipped
from twinlens.spec.device import Device
from twinlens.spec.study import RunSpec
from twinlens.spec.tune import Constraint
from twinlens.tuning.prior import beyond, device_here


def h100() -> Device:
    return shipped().device("h100-sxm-80gb")


def served(model: str = "llama-3.1-8b", **point: Any) -> RunSpec:
    lengths = {f"{name}_tokens": {"kind": "fixed", "value": 256} for name in ("input", "output")}
    data = inference("vllm", model, arrival={"kind": "closed"}, **lengths)
    return spec_of(data | {"point": {"precision": "bf16", "concurrency": 64, **point}})


def limit(at_most: float, metric: str = "tpot_s_p90") -> tuple[Constraint, ...]:
    return (Constraint(metric=metric, at_most=at_most),)


def test_a_limit_far_below_the_prediction_leaves_it_out_and_says_by_how_much() -> None:
    assert "times over its limit" in beyond(served(), limit(1e-5), h100())


def test_a_limit_within_the_band_is_tried() -> None:
    assert beyond(served(), limit(0.02), h100()) == ""


def test_a_looser_limit_never_leaves_out_what_a_tighter_one_keeps() -> None:
    limits = [1e-5 * 1.7**step for step in range(20)]
    out = [bool(beyond(served(), limit(each), h100())) for each in limits]
    assert out == sorted(out, reverse=True)
    assert out[0]
    assert not out[-1]


def test_a_median_and_a_rate_are_not_what_is_predicted() -> None:
    assert beyond(served(), limit(1e-9, "ttft_s_p50"), h100()) == ""
    assert beyond(served(), (Constraint(metric="output_tokens_per_s", at_least=1e9),), h100()) == ""


def test_without_a_known_device_or_of_training_nothing_is_left_out() -> None:
    assert beyond(served(), limit(1e-9), None) == ""
    assert beyond(spec_of(training("torch")), limit(1e-9), h100()) == ""


def test_a_processor_has_no_device_of_the_catalogue() -> None:
    spec = served()
    on_cpu = spec.model_copy(update={"executor": spec.executor.model_copy(update={"device": "cpu"})})
    assert device_here(on_cpu) is None
