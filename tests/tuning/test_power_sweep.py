"""A sweep of the power limit is a space like any other, over what the devices of a run take."""

from __future__ import annotations

import pytest

from material import study_of, training
from twinlens.errors import BadInput
from twinlens.system.power_limit import PowerLimit
from twinlens.tuning import power_limit
from twinlens.tuning.bound import bound_of
from twinlens.tuning.setting import allows, chosen, settings_of

BUDGET = {"trials": 4, "wall_h": 0.1, "device_h": 0.1}


def test_all_limits_are_even_steps_from_the_least_of_all_devices_to_the_one_that_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    devices = (PowerLimit("gpu:GPU-a", 700_000, 200.0, 700.0), PowerLimit("gpu:GPU-b", 650_500, 150.0, 700.0))
    monkeypatch.setattr(power_limit, "device_limits", lambda run: devices)
    found = chosen("torch", "training", {"power_limit_w": "all"}, study_of(training()))
    assert found["power_limit_w"][1] == (200.0, 290.0, 380.0, 470.0, 560.0, 650.5)
    one = (PowerLimit("package:intel-rapl:0", 65_000_000, 65.0, 65.0),)
    monkeypatch.setattr(power_limit, "device_limits", lambda run: one)
    assert power_limit.limits_here(study_of(training())) == (65.0,)


def test_a_sweep_of_named_limits_needs_no_device_and_is_of_the_open_tier() -> None:
    found = chosen("vllm", "inference", {"power_limit_w": {"from": 200, "to": 400, "step": 100}})
    assert found["power_limit_w"][1] == (200.0, 300.0, 400.0)
    assert not allows("precision", found["power_limit_w"][0])
    with pytest.raises(BadInput, match="names 'power_limit_w', which is no setting of fake for training"):
        chosen("fake", "training", {"power_limit_w": "all"})
    assert "power_limit_w" not in settings_of("fake", "training")


def test_candidates_of_a_swept_limit_take_no_turns_and_each_says_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    one = (PowerLimit("package:intel-rapl:0", 65_000_000, 6.5, 65.0),)
    monkeypatch.setattr(power_limit, "device_limits", lambda run: one)
    tune = {"tier": "open", "space": {"power_limit_w": [30.0, 65.0]}, "budget": BUDGET}
    data = training(protocol={"isolate": True}) | {"tune": tune}
    bound = bound_of(study_of(data))
    assert not bound.objective.in_turns
    assert bound.spec({"power_limit_w": 30.0}).executor.power_limit_w == 30.0
    assert bound.default == {"power_limit_w": None}
    with pytest.raises(BadInput, match="candidates that are up together have one power limit"):
        bound_of(study_of(data | {"tune": tune | {"in_turns": True}}))
    assert bound_of(study_of(data | {"tune": tune | {"space": {"threads": [1, 2]}}})).objective.in_turns


def test_a_sweep_where_no_limit_can_be_set_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(run: object) -> tuple[PowerLimit, ...]:
        raise BadInput("the power limit of the processor cannot be set: no RAPL", code="TL266")

    monkeypatch.setattr(power_limit, "device_limits", refuse)
    with pytest.raises(BadInput, match="cannot be set: no RAPL"):
        chosen("torch", "training", {"power_limit_w": "all"}, study_of(training()))
