"""Collectives, speculative decoding and energy: figures worked by hand, and arrays beside scalars."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.planning.cost.machine import (
    energy_cost,
    energy_j,
    energy_share,
    node_power_w,
)
from twinlens.spec.model.reference import DecoderShape, load_model
from twinlens.theory.collective import (
    algorithm_bandwidth,
    bus_bandwidth,
    bus_factor,
    collective_time_s,
    tensor_parallel_bytes,
)
from twinlens.theory.roofline import expected_tokens, speed_up


def decoder(name: str) -> DecoderShape:
    shape = load_model(name).shape
    assert isinstance(shape, DecoderShape)
    return shape


BIG = decoder("llama-3.1-70b")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("all-reduce", 1.75), ("all-gather", 0.875), ("reduce-scatter", 0.875), ("all-to-all", 0.875), ("broadcast", 1)],
)
def test_bus_bandwidth_is_that_of_nccl_tests(kind: str, expected: float) -> None:
    assert bus_factor(kind, 8) == expected  # type: ignore[arg-type]
    assert algorithm_bandwidth(8e9, 0.1) == 80e9
    assert bus_bandwidth(kind, 8e9, 0.1, 8) == 80e9 * expected  # type: ignore[arg-type]
    assert bus_factor(kind, 1) == 0  # type: ignore[arg-type]


def test_an_unknown_collective_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="'all-reduce'"):
        bus_factor("allreduce", 8)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="'ring'"):
        collective_time_s("all-reduce", 1, 2, 1, algorithm="rings")  # type: ignore[arg-type]


def test_a_tree_has_fewer_hops_than_a_ring() -> None:
    # 64 ranks at 5 µs: 126 and 12 hops; 1 GB · 2 · 63/64 over 100 GB/s
    ring, tree = (collective_time_s("all-reduce", 1e9, 64, 100e9, 5e-6, how) for how in ("ring", "tree"))  # type: ignore[arg-type]
    assert ring == pytest.approx(126 * 5e-6 + 19.6875e-3)
    assert tree == pytest.approx(12 * 5e-6 + 19.6875e-3)
    assert collective_time_s("all-reduce", 1e9, 1, 100e9, 5e-6) == 0


@given(st.integers(1, 4096), st.floats(1e3, 1e12))
def test_bandwidth_and_time_are_two_sides_of_one_figure(ranks: int, size: float) -> None:
    time_s = collective_time_s("all-reduce", size, ranks + 1, 50e9)
    assert bus_bandwidth("all-reduce", size, time_s, ranks + 1) == pytest.approx(50e9)


@pytest.mark.parametrize(
    ("bus", "peak", "expected"), [(55e9, 503e12, 0.39), (366e9, 989.5e12, 0.159)], ids=["PCIe", "NVLink"]
)
def test_tensor_parallel_training_waits_for_its_all_reduces(bus: float, peak: float, expected: float) -> None:
    # method.md N-17: 4 · 80 · 8,192 · 2 B = 5.24 MB per token, × 1.75, against 6 · 70e9 / 8 FLOP at 40 %
    exchange = tensor_parallel_bytes(BIG, 1, 8) / bus
    compute = 6 * 70e9 / 8 / (0.4 * peak)
    assert exchange / (exchange + compute) == pytest.approx(expected, abs=0.003)


def test_an_array_of_ranks_is_each_of_them() -> None:
    ranks = np.array([1, 2, 8])
    for kind in ("all-reduce", "broadcast", "send"):
        found = collective_time_s(kind, 1e9, ranks, 50e9, 1e-5, "tree")  # type: ignore[arg-type]
        assert list(found) == [collective_time_s(kind, 1e9, int(n), 50e9, 1e-5, "tree") for n in ranks]  # type: ignore[arg-type]


def test_speculation_yields_what_its_paper_says() -> None:
    # a = 0.8, k = 4: 1 + 0.8 + 0.64 + 0.512 + 0.4096
    assert expected_tokens(0.8, 4) == pytest.approx(3.3616)
    assert expected_tokens(0, 4) == 1
    assert expected_tokens(1, 4) == 5
    assert speed_up(0.8, 4, 0.05) == pytest.approx(3.3616 / 1.2)
    assert speed_up(0.8, 4, 0.05, check_cost=5) < 1
    assert list(expected_tokens(np.array([0.8, 1.0]), 4)) == pytest.approx([3.3616, 5])


def test_an_acceptance_above_one_is_refused() -> None:
    with pytest.raises(BadInput, match="between 0 and 1"):
        expected_tokens(1.2, 4)
    with pytest.raises(BadInput, match="between 0 and 1"):
        expected_tokens(np.array([0.2, 1.2]), 4)


@given(st.floats(0, 1), st.integers(0, 20))
def test_a_pass_yields_at_least_one_token_and_never_more_than_it_checks(acceptance: float, drafted: int) -> None:
    assert 1 <= expected_tokens(acceptance, drafted) <= drafted + 1 + 1e-9


def test_energy_is_a_ninth_of_the_hourly_cost_of_an_h100() -> None:
    # method.md N-26: 700 W · 1.5 · 1.3 = 1.365 kW; $0.137 an hour; $37,500 over 4 years = $1.07
    power = node_power_w(700, 1, 1.5, 1.3)
    assert power == pytest.approx(1365)
    assert energy_cost(energy_j(power, 3600), 0.10) == pytest.approx(0.1365)
    assert energy_share(power, 0.10, 37_500 / (4 * 8760)) == pytest.approx(0.113, abs=0.001)


@pytest.mark.parametrize("wrong", [{"pue": 0.9}, {"host_factor": 0.5}, {"pue": np.array([1.2, 0.9])}])
def test_a_factor_below_one_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="cannot be below 1"):
        node_power_w(700, **wrong)
