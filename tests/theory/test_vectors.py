"""Every figure worked by hand in tests/vectors/theory.toml, recomputed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from twinlens.spec.device import load_device
from twinlens.spec.model.reference import DecoderShape, load_model
from twinlens.theory.activation import korthikanti_bytes
from twinlens.theory.flop import CONVENTIONS, parameters, training_flop_per_token
from twinlens.theory.memory import LAYOUTS, kv_bytes, weights_bytes
from twinlens.theory.roofline import batch_at_ridge, time_floor_s

VECTORS = tomllib.loads((Path(__file__).parents[1] / "vectors" / "theory.toml").read_text())
ROUNDED = 0.005  # answers carry three digits


def rows(table: str) -> Any:
    return pytest.mark.parametrize("row", VECTORS[table], ids=lambda row: "-".join(map(str, row.values())))


@rows("parameters")
def test_a_model_has_the_parameters_it_is_published_with(row: dict[str, Any]) -> None:
    assert parameters(load_model(row["model"]).shape).total == row["expected"]


@rows("training_gflop_per_token")
def test_one_run_has_four_flop_counts(row: dict[str, Any]) -> None:
    shape = load_model("llama-3.1-8b").shape
    found = {name: training_flop_per_token(shape, row["seq_len"], name) / 1e9 for name in CONVENTIONS}
    assert found == pytest.approx(row["expected"], rel=0.002)


@rows("kv_bytes")
def test_a_cache_takes_its_heads_and_layers(row: dict[str, Any]) -> None:
    shape = load_model(row["model"]).shape
    assert kv_bytes(shape, row["tokens"], 2, sequences=row.get("sequences", 1)) == row["expected"]


@rows("kv_wrong_gb")
def test_a_well_known_wrong_cache_size_is_not_ours(row: dict[str, Any]) -> None:
    ours = kv_bytes(load_model("llama-3.1-70b").shape, row["tokens"], 2) / 1e9
    assert not 1 / 3 < ours / row["claimed"] < 3


@rows("training_state_gb")
def test_training_state_is_parameters_times_bytes(row: dict[str, Any]) -> None:
    assert 70 * LAYOUTS[row["layout"]].total == row["expected"]


@rows("activation_gb")
def test_activations_follow_korthikanti(row: dict[str, Any]) -> None:
    shape = load_model("llama-3.1-70b").shape
    assert isinstance(shape, DecoderShape)
    found = korthikanti_bytes(shape, 1, 4096, row["checkpointing"], "materialised")
    assert found / 1e9 == pytest.approx(row["expected"], rel=ROUNDED)


@rows("weights_gb")
def test_weights_follow_bits_and_what_is_left_wide(row: dict[str, Any]) -> None:
    found = weights_bytes(load_model(row["model"]).shape, row["bits"], row.get("embedding_bits"))
    assert found / 1e9 == pytest.approx(row["expected"], rel=ROUNDED)


@rows("decode_ms")
def test_decode_is_bytes_over_bandwidth(row: dict[str, Any]) -> None:
    device = load_device("h200-sxm-141gb")
    rate = device.rate("bf16")
    assert rate is not None
    floor = time_floor_s(2 * 70.55e9, row["gb"] * 1e9, rate, device.bandwidth_bytes_per_s)
    assert floor.binds == "bandwidth"
    assert floor.time_s * 1e3 == pytest.approx(row["expected"], rel=ROUNDED)


@rows("batch_at_ridge")
def test_decode_turns_compute_bound_at_the_ridge(row: dict[str, Any]) -> None:
    device = load_device(row["device"])
    rate = device.rate("fp16")
    assert rate is not None
    assert batch_at_ridge(rate, device.bandwidth_bytes_per_s, row["bits"]) == pytest.approx(
        row["expected"], rel=ROUNDED
    )
