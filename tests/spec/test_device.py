"""The device catalogue: dense, cited, and matched letter for letter."""

from __future__ import annotations

import pytest

from each import each
from twinlens.errors import BadInput
from twinlens.spec.consistency import implausible
from twinlens.spec.device import DenseRates, Device, find_device, list_devices, load_device

ALL = [load_device(name) for name in list_devices()]


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H200", "h200-sxm-141gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA H200 NVL", "h200-nvl-141gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
    ],
)
def test_a_driver_name_finds_its_device(reported: str, name: str) -> None:
    device = find_device(reported)
    assert device is not None
    assert device.name == name


@pytest.mark.parametrize(
    "reported",
    ["NVIDIA H100", "H200", "nvidia h200", "NVIDIA H200 MIG 1g.18gb", "NVIDIA H20-3e", "NVIDIA L4S", "", "cpu"],
)
def test_a_name_that_is_nearly_known_stays_unknown(reported: str) -> None:
    assert find_device(reported) is None


def test_no_two_devices_share_a_reported_name() -> None:
    names = [name for device in ALL for name in device.reported_names]
    assert len(names) == len(set(names))


def test_an_unknown_catalogue_name_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="h200-sxm-141gb") as caught:
        load_device("h200-sxm")
    assert caught.value.code == "TL204"


def test_rates_are_dense() -> None:
    # The sparse figures for the same parts are 1 979, 624 and 4 500 TFLOP/s.
    assert load_device("h100-sxm-80gb").rate("fp16") == 989.4e12
    assert load_device("a100-sxm-80gb").rate("bf16") == 312e12
    assert load_device("b200-sxm-180gb").rate("bf16") == 2250e12


def test_a_dense_rate_implies_a_clock_the_part_can_run_at() -> None:
    # H100 SXM: 132 multiprocessors with 4 matrix engines of 512 multiply-accumulates; at most 1.98 GHz.
    rate = load_device("h100-sxm-80gb").rate("fp16")
    assert rate is not None
    assert 1.7e9 < rate / (132 * 4 * 512 * 2) < 1.98e9


@each(ALL, lambda device: device.name)
def test_halving_the_bits_never_slows_the_matrix_engines(device: Device) -> None:
    ladder = [device.rate(form) for form in ("fp32", "tf32", "bf16", "fp8", "fp4")]
    known = [rate for rate in ladder if rate is not None]
    assert known == sorted(known)
    # Twice per halving of bits and no more: a sparse figure among dense ones would be four times.
    sixteen, eight = device.rate("fp16"), device.rate("fp8")
    if device.vendor in ("NVIDIA", "AMD") and sixteen is not None:  # others' engines do 8 bits as fast as 16
        assert eight is None or eight == pytest.approx(2 * sixteen, rel=0.03)


@each(ALL, lambda device: device.name)
def test_units_are_si_and_every_device_is_cited(device: Device) -> None:
    assert 5e9 < device.memory_bytes < 1e13
    assert 6e10 < device.bandwidth_bytes_per_s < 2e13
    rates = [rate for name in ("bf16", "fp16", "fp4") if (rate := device.rate(name)) is not None]
    assert rates, "a rate of matrix products is known of every device"
    assert all(2e12 < rate < 2e16 for rate in rates)
    assert device.tdp_w is None or 30 < device.tdp_w < 2000
    assert device.tdp_w is not None or device.form == "cloud-only"
    assert len(device.source) > 10


def test_what_the_driver_shows_may_exceed_the_nominal_size() -> None:
    h200 = load_device("h200-sxm-141gb")
    assert h200.memory_bytes == 141_000_000_000
    assert h200.memory_visible_bytes == 143771 * 2**20


def test_a_format_the_part_has_no_figure_for_is_absent() -> None:
    assert load_device("a100-sxm-80gb").rate("fp8-e4m3") is None
    assert load_device("h100-sxm-80gb").rate("fp8-e4m3") == load_device("h100-sxm-80gb").rate("fp8-e5m2")
    assert load_device("h100-sxm-80gb").rate("int2") is None


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA H20", "h20-96gb"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA B300 SXM6 AC", "b300-sxm-288gb"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA GB10", "gb10"),
    ],
)
def test_boards_of_these_years_are_known_by_the_names_their_drivers_report(reported: str, name: str) -> None:
    device = find_device(reported)
    assert device is not None
    assert device.name == name


def test_what_sources_dispute_is_left_out() -> None:
    assert load_device("b300-sxm-288gb").rate("int8") is None
    assert load_device("gb10").rate("int8") is None
    assert "rates" in load_device("gb10").unverified


@each(ALL, lambda device: device.name)
def test_no_shipped_figure_is_implausible(device: Device) -> None:
    assert list(implausible(device)) == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"dense_flop_per_s": DenseRates(bf16=1979e12, fp8=1979e12)}, "needs a clock of 3.66 GHz"),
        ({"dense_flop_per_s": DenseRates(bf16=989e12, fp8=3958e12)}, "fp8 rate is 4 times"),
        ({"dense_flop_per_s": DenseRates(bf16=989.0)}, "TFLOP/s"),
        ({"memory_bytes": 80}, "80 GB are"),
        ({"bandwidth_bytes_per_s": 3350.0}, "3.35 TB/s are"),
        ({"bandwidth_bytes_per_s": 3.35e13}, "bytes/s"),
        ({"memory_visible_bytes": 8_000_000_000}, "0.1 times its memory"),
    ],
)
def test_slips_of_units_and_sparse_rates_are_seen(changed: dict[str, object], says: str) -> None:
    wrong = load_device("h100-sxm-80gb").model_copy(update=changed)
    assert says in " ".join(implausible(wrong))
