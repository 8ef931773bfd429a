"""Ceilings measured on this machine: bounded time, honest intervals, reasons where there is none."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

from twinlens.executors.in_process.ceiling import rate as rate_of  # noqa: E402
from twinlens.executors.torch.ceiling.rates import (  # noqa: E402  # noqa: E402
    ceilings_for,
    copy_bytes_per_s,
    matrix_flop_per_s,
    matrix_flop_per_s_at,
    matvec_bytes_per_s,
    own_shapes,
    read_bytes_per_s,
)
from twinlens.executors.torch.ceiling.timing import Unsupported, pattern, walk  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402
from twinlens.spec.model.shape import VitShape  # noqa: E402
from twinlens.units import FLOP_PER_S  # noqa: E402

pytestmark = pytest.mark.torch
SHAPES = [(256, 128), (128, 256)]


def test_a_rate_is_the_median_with_the_slowest_and_best_repeat() -> None:
    estimate = rate_of(100.0, [10.0, 5.0, 20.0], FLOP_PER_S, "by hand")
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (10.0, 5.0, 20.0, 3)
    assert estimate.level == 0.75  # both sides of the median missed: 2 * (1/2)**3


def test_one_repeat_has_no_level() -> None:
    assert rate_of(1.0, [1.0], FLOP_PER_S, "by hand").level is None


@pytest.mark.parametrize("regime", [("fp32", None), ("bf16", "int8")])
def test_the_ceilings_of_a_run_are_whole_and_take_little_time(regime: tuple[str, str | None]) -> None:
    begin = time.perf_counter()
    ceilings = ceilings_for(regime[0], SHAPES, [(32, 256, 128)], weights=regime[1])
    assert time.perf_counter() - begin < 60  # half a second alone
    assert all(estimate.value and estimate.low <= estimate.value <= estimate.high for estimate in ceilings.values())
    best = ceilings["matvec_best_bytes_per_s"].value
    assert best is not None
    assert best >= ceilings["matvec_bytes_per_s"].value


def test_methods_name_the_kernel_and_the_threads() -> None:
    rate = matvec_bytes_per_s("int8", SHAPES, threads=1, buffer=pattern(2**20, "cpu"))
    assert "_weight_int8pack_mm" in rate.method
    assert "1 thread" in rate.method
    assert "fits in the last-level cache" in rate.method


def test_threads_and_precision_are_set_back() -> None:
    before = (torch.get_num_threads(), torch.get_float32_matmul_precision())
    matrix_flop_per_s("fp32", threads=1, budget_s=0.01)
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("fmt", ["tf32", "fp8-e4m3", "int4"])
def test_a_format_this_device_lacks_is_absent_with_a_reason(fmt: str) -> None:
    rate = matrix_flop_per_s(fmt)
    assert rate.value is None
    assert fmt in (rate.reason or "")
    assert matrix_flop_per_s_at(fmt, [(1, 2, 3)]).value is None


def test_an_unknown_layout_and_no_shapes_are_absent() -> None:
    small = pattern(2**20, "cpu")
    assert matvec_bytes_per_s("fp32", SHAPES, "diagonal", buffer=small).value is None
    assert matvec_bytes_per_s("fp32", [], buffer=small).value is None
    assert matrix_flop_per_s_at("fp32", []).value is None


def test_own_shapes_count_every_token_or_patch_and_a_convolutional_network_has_none() -> None:
    layers = [(30, 20)]
    decoder, vit, resnet = (load_model(name).shape for name in ("tiny", "vit-tiny", "resnet-tiny"))
    assert own_shapes(decoder, layers, 4, 128) == own_shapes(None, layers, 4, 128) == [(512, 30, 20)]
    assert isinstance(vit, VitShape)
    patches = (vit.image_size // vit.patch_size) ** 2
    assert own_shapes(vit, layers, 4, 3) == [(4 * (patches + 1), 30, 20)], "and the class token"
    assert own_shapes(resnet, layers, 4, 3) == []


def test_a_walk_reads_each_weight_once_and_stops_at_the_buffer() -> None:
    _, size_bytes, used, _ = walk("fp32", [(64, 64)] * 10, "row", pattern(64 * 64 * 4 * 3, "cpu"))
    assert (size_bytes, used) == (64 * 64 * 4 * 3, 3)
    _, size_bytes, used, _ = walk("int4", [(64, 64)], "packed", pattern(2**16, "cpu"))
    assert (size_bytes, used) == (64 * 64 // 2, 1)
    with pytest.raises(Unsupported, match="no weight fits"):
        walk("fp32", [(64, 64)], "row", pattern(64, "cpu"))


def test_the_pattern_is_an_ordinary_number_in_every_format() -> None:
    data = pattern(64, "cpu")
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        values = data.view(dtype).float()
        assert torch.all((values > 0.01) & (values < 2))


def test_a_slow_pass_is_cut_to_its_budget_and_says_so() -> None:
    begin = time.perf_counter()
    rate = matrix_flop_per_s_at("fp32", [(200_000, 1024, 1024)], budget_s=0.05)
    assert time.perf_counter() - begin < 60
    assert "cut" in rate.method


def test_reading_and_copying_say_how_much() -> None:
    small = pattern(2**22, "cpu")
    assert "4 MiB" in read_bytes_per_s(buffer=small).method
    assert "2 MiB" in copy_bytes_per_s(buffer=small).method
