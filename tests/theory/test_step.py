"""A decode step or a prefill in one call: memory, work and the roof that binds."""

from __future__ import annotations

import numpy as np
import pytest

from twinlens.errors import BadInput
from twinlens.spec.model.reference import DecoderShape, load_model
from twinlens.theory.roofline import compute_time_s, ridge_points
from twinlens.theory.speculative import speed_up
from twinlens.theory.step import Place, decode_step, prefill


def decoder(name: str) -> DecoderShape:
    shape = load_model(name).shape
    assert isinstance(shape, DecoderShape)
    return shape


BIG = decoder("llama-3.1-70b")
H200 = Place(989.5e12, 4.8e12)


def test_a_decode_step_is_bound_by_bandwidth_until_its_batch_is_large() -> None:
    # 141.1 − 2.1 GB (the table) over 4.8 TB/s
    alone = decode_step(BIG, H200, 1, 1)
    assert (alone.binds, alone.time_s) == ("bandwidth", pytest.approx(28.96e-3, rel=0.001))
    assert alone.memory_bytes == pytest.approx(141.1e9, rel=0.001)
    many = decode_step(BIG, H200, 512, 1)
    assert many.binds == "compute"
    assert many.tokens_per_s == pytest.approx(512 / many.time_s)


def test_a_prefill_is_bound_by_compute() -> None:
    found = prefill(BIG, H200, 8192)
    assert found.binds == "compute"
    assert found.time_s == found.flop / 989.5e12


def test_a_grid_of_devices_formats_and_batches_is_one_call() -> None:
    rates, bits, batch = np.array([[[989.5e12]], [[2250e12]]]), np.array([[16.0], [4.5]]), np.array([1, 64, 4096])
    found = decode_step(BIG, Place(rates, np.array([[[4.8e12]], [[8e12]]]), bits), batch, 1024)
    assert found.time_s.shape == found.binds.shape == (2, 2, 3)
    assert found.memory_bytes.shape == (2, 3)
    one = decode_step(BIG, Place(2250e12, 8e12, 4.5), 64, 1024)
    assert found.time_s[1, 1, 1] == pytest.approx(one.time_s)
    assert found.binds[1, 1, 1] == one.binds


def test_checking_drafted_tokens_is_free_until_the_ridge() -> None:
    step, check = decode_step(BIG, H200, 1, 1024), decode_step(BIG, H200, 1, 1024, checked_tokens=5)
    assert check.time_s == pytest.approx(step.time_s)
    step, check = decode_step(BIG, H200, 256, 1024), decode_step(BIG, H200, 256, 1024, checked_tokens=5)
    assert check.time_s / step.time_s > 3
    assert speed_up(0.8, 4, 0.05, check.time_s / step.time_s) < 1


def test_each_precision_has_its_own_ridge() -> None:
    points = ridge_points({"bf16": 989.5e12, "fp8-e4m3": 1979e12}, 3.35e12)
    assert points["bf16"] == pytest.approx(295.4, abs=0.1)
    assert points["fp8-e4m3"] == 2 * points["bf16"]


def test_arithmetic_in_two_precisions_takes_both_their_times() -> None:
    # Three quarters of 1e15 FLOP in fp8, the rest in bf16
    peaks = {"bf16": 1e15, "fp8-e4m3": 2e15}
    assert compute_time_s({"bf16": 0.25e15, "fp8-e4m3": 0.75e15}, peaks) == pytest.approx(0.625)
    with pytest.raises(BadInput, match="no peak is known for int8"):
        compute_time_s({"int8": 1.0}, peaks)


@pytest.mark.parametrize("place", [Place(0, 1e12), Place(1e12, 0), Place(1e12, -1), Place(1e12, 1e12, 0)])
def test_a_device_without_a_rate_is_refused(place: Place) -> None:
    with pytest.raises(BadInput, match="must be above 0"):
        decode_step(BIG, place)
