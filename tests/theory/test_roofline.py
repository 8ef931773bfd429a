"""The roofline of a decode step and of a prefill: the roof that binds, alone and over a grid."""

from __future__ import annotations

import numpy as np
import pytest

from twinlens.errors import BadInput
from twinlens.spec.model.reference import DecoderShape, load_model
from twinlens.theory.flop import forward_flop, prefill_flop
from twinlens.theory.memory import weights_bytes
from twinlens.theory.number import Number
from twinlens.theory.roofline import Floor, time_floor_s
from twinlens.theory.traffic import decode_step_bytes, prefill_bytes


def decoder(name: str) -> DecoderShape:
    shape = load_model(name).shape
    assert isinstance(shape, DecoderShape)
    return shape


BIG = decoder("llama-3.1-70b")
RATES = (989.5e12, 4.8e12)
"""FLOP/s and bytes/s of an H200."""


def decode_step(
    batch: Number, context: Number, checked: Number = 1, bits: Number = 16.0, rates: tuple[Number, Number] = RATES
) -> Floor:
    flop = batch * forward_flop(BIG, checked, context)
    return time_floor_s(flop, decode_step_bytes(BIG, context, batch, bits), *rates)


def test_a_decode_step_is_bound_by_bandwidth_until_its_batch_is_large() -> None:
    # 141.1 − 2.1 GB (the table) over 4.8 TB/s
    alone = decode_step(1, 1)
    assert (alone.binds, alone.time_s) == ("bandwidth", pytest.approx(28.96e-3, rel=0.001))
    assert weights_bytes(BIG) == pytest.approx(141.1e9, rel=0.001)
    assert decode_step(512, 1).binds == "compute"


def test_a_prefill_is_bound_by_compute() -> None:
    flop = prefill_flop(BIG, 8192)
    found = time_floor_s(flop, prefill_bytes(BIG, 8192), *RATES)
    assert found.binds == "compute"
    assert found.time_s == flop / 989.5e12


def test_a_grid_of_devices_formats_and_batches_is_one_call() -> None:
    rates, bits, batch = np.array([[[989.5e12]], [[2250e12]]]), np.array([[16.0], [4.5]]), np.array([1, 64, 4096])
    found = decode_step(batch, 1024, bits=bits, rates=(rates, np.array([[[4.8e12]], [[8e12]]])))
    assert found.time_s.shape == found.binds.shape == (2, 2, 3)
    one = decode_step(64, 1024, bits=4.5, rates=(2250e12, 8e12))
    assert found.time_s[1, 1, 1] == pytest.approx(one.time_s)
    assert found.binds[1, 1, 1] == one.binds


def test_checking_drafted_tokens_is_free_until_the_ridge() -> None:
    assert decode_step(1, 1024, checked=5).time_s == pytest.approx(decode_step(1, 1024).time_s)
    assert decode_step(256, 1024, checked=5).time_s / decode_step(256, 1024).time_s > 3


@pytest.mark.parametrize("rates", [(0, 1e12), (1e12, 0), (1e12, -1)])
def test_a_device_without_a_rate_is_refused(rates: tuple[float, float]) -> None:
    with pytest.raises(BadInput, match="must be above 0"):
        decode_step(1, 1, rates=rates)


def test_a_weight_without_a_width_is_refused() -> None:
    with pytest.raises(BadInput, match="must be above 0"):
        decode_step(1, 1, bits=0)
