"""Every number that theory is given is checked: what is negative, no number or absurd is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from twinlens.errors import BadInput
from twinlens.planning.cost.machine import energy_cost, energy_j, energy_share, node_power_w
from twinlens.spec.model.reference import DecoderShape, load_model
from twinlens.theory.activation import activation_bytes
from twinlens.theory.adapter import adapter_flop_per_token, adapter_parameters
from twinlens.theory.collective import (
    bus_bandwidth,
    bus_factor,
    collective_time_s,
    tensor_parallel_bytes,
)
from twinlens.theory.flop import decode_flop, forward_flop, hardware_flop_per_token, training_flop_per_token
from twinlens.theory.memory import LAYOUTS, kv_bytes, kv_bytes_per_token, weights_bytes
from twinlens.theory.roofline import (
    attainable_flop_per_s,
    batch_at_ridge,
    expected_tokens,
    ridge_point,
    speed_up,
    time_floor_s,
)
from twinlens.theory.serving import most_sequences, prefill_activation_bytes, serving_memory
from twinlens.theory.sharding import Split, sharded_memory
from twinlens.theory.traffic import decode_traffic, prefill_bytes, training_step_bytes, weights_read_bytes

SHAPE = load_model("mixtral-8x7b").shape
assert isinstance(SHAPE, DecoderShape)
S = SHAPE
Call = tuple[Callable[..., Any], dict[str, Any]]
CALLS: list[Call] = [
    (lambda **n: forward_flop(S, **n), {"new_tokens": 2, "context": 3, "image_tokens": 1}),
    (lambda **n: decode_flop(S, **n), {"context": 3}),
    (lambda **n: training_flop_per_token(S, **n), {"seq_len": 8}),
    (lambda **n: hardware_flop_per_token(S, **n), {"seq_len": 8}),
    (lambda **n: weights_bytes(S, **n), {"bits_per_weight": 4.5}),
    (lambda **n: kv_bytes_per_token(S, **n), {"bytes_per_element": 2}),
    (lambda **n: kv_bytes(S, **n), {"tokens_resident": 9, "bytes_per_element": 2, "sequences": 2, "block": 16}),
    (lambda **n: activation_bytes(S, **n), {"microbatch": 1, "seq_len": 8, "bytes_per_element": 2}),
    (lambda **n: weights_read_bytes(S, **n), {"tokens": 1, "bits_per_weight": 4, "head_bits": 16}),
    (lambda **n: decode_traffic(S, **n), {"context": 3, "batch": 2, "bits_per_weight": 4, "kv_bytes_per_element": 1,
                                          "activation_bytes_per_element": 2}),
    (lambda **n: prefill_bytes(S, **n), {"tokens": 5, "batch": 2, "kv_bytes_per_element": 1}),
    (lambda **n: training_step_bytes(S, LAYOUTS["fp32"], **n), {"microbatch": 1, "seq_len": 8, "accumulation": 2}),
    (lambda **n: serving_memory(S, **n), {
        "weights_bytes": 1e9, "sequences": 2, "context": 9, "kv_bytes_per_element": 2, "block": 16, "chunk_tokens": 64,
        "bytes_per_element": 2, "runtime_bytes": 1e9, "tensor_parallel": 2}),
    (lambda **n: prefill_activation_bytes(S, **n), {"tokens": 9, "bytes_per_element": 2, "tensor_parallel": 2}),
    (lambda **n: most_sequences(S, 9e9, 1e9, **n), {"context": 9, "kv_bytes_per_element": 2, "tensor_parallel": 2}),
    (lambda **n: sharded_memory(S, LAYOUTS["fp32"], Split(**n), 1, 8), {
        "data": 2, "tensor": 2, "pipeline": 2, "context": 1, "expert": 2, "microbatches": 4}),
    (lambda **n: adapter_parameters(S, **n), {"rank": 8}),
    (lambda **n: adapter_flop_per_token(S, **n), {"seq_len": 8, "rank": 8}),
    (lambda **n: bus_factor("all-reduce", **n), {"ranks": 8}),
    (lambda **n: bus_bandwidth("all-gather", **n), {"size_bytes": 8, "time_s": 1, "ranks": 8}),
    (lambda **n: collective_time_s("all-reduce", **n), {"size_bytes": 8, "ranks": 8, "bus_bytes_per_s": 1, "hop_s": 1}),
    (lambda **n: tensor_parallel_bytes(S, **n), {"tokens": 9, "ranks": 8, "bytes_per_element": 2}),
    (expected_tokens, {"acceptance": 0.8, "drafted": 4}),
    (speed_up, {"acceptance": 0.8, "drafted": 4, "draft_cost": 0.1, "check_cost": 1}),
    (node_power_w, {"device_w": 700, "devices": 8, "host_factor": 1.5, "pue": 1.3}),
    (energy_j, {"power_w": 700, "time_s": 2}),
    (energy_cost, {"energy": 700, "price_per_kwh": 2}),
    (energy_share, {"power_w": 700, "price_per_kwh": 0.1, "capital_per_hour": 1}),
    (ridge_point, {"flop_per_s": 1, "bytes_per_s": 1}),
    (attainable_flop_per_s, {"flop_per_byte": 1, "flop_per_s": 1, "bytes_per_s": 1}),
    (time_floor_s, {"flop": 1, "bytes_moved": 1, "flop_per_s": 1, "bytes_per_s": 1}),
    (batch_at_ridge, {"flop_per_s": 1, "bytes_per_s": 1, "bits_per_weight": 1}),
]  # fmt: skip


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "many", None, np.array([1.0, -1.0])], ids=str)
@pytest.mark.parametrize(("call", "numbers"), CALLS, ids=[",".join(numbers) for _, numbers in CALLS])
def test_an_absurd_number_is_one_sentence(call: Callable[..., Any], numbers: dict[str, Any], wrong: Any) -> None:
    call(**numbers)
    for name in numbers:
        if wrong is None and name == "head_bits":  # None says that the head is as wide as the rest
            continue
        with pytest.raises(BadInput) as caught:
            call(**{**numbers, name: wrong})
        assert "\n" not in str(caught.value)
