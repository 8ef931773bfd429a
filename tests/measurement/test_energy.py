"""Energy counters: a powercap tree in a folder, recorded NVML readings, and windows worked by hand."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.measurement.machine.energy import BoardMeter, Meters, energy_facts, open_meters, open_rapl
from twinlens.system.nvml import Gpu

RANGE_UJ = 262_143_328_850


class Refused(Exception):
    """What NVML raises."""


def recorded_gpu(*energies_mj: int | None, mig: int = 0) -> Gpu:
    """A board whose counter gives these readings in turn, the last one for ever; None refuses."""
    left = list(energies_mj)

    def energy(_: object) -> int:
        value = left.pop(0) if len(left) > 1 else left[0]
        if value is None:
            raise Refused("Not Supported")
        return value

    library = SimpleNamespace(
        NVMLError=Refused,
        nvmlDeviceGetUUID=lambda _: "GPU-7",
        nvmlDeviceGetTotalEnergyConsumption=energy,
        nvmlDeviceGetMigMode=lambda _: [mig, mig],
    )
    return Gpu(library, handle=0)


@dataclass
class Domain:
    """One powercap domain on disk."""

    folder: Path
    name: str
    energy_uj: int = 0
    range_uj: int = field(default=RANGE_UJ)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "name").write_text(f"{self.name}\n")
        (self.folder / "max_energy_range_uj").write_text(f"{self.range_uj}\n")
        self.set(self.energy_uj)

    def set(self, energy_uj: int) -> None:
        (self.folder / "energy_uj").write_text(f"{energy_uj}\n")


def test_a_package_counter_is_read_from_where_it_stood(tmp_path: Path) -> None:
    domain = Domain(tmp_path / "intel-rapl:0", "package-0", 5_000_000)
    (meter,), reason = open_rapl(tmp_path)
    assert reason is None
    domain.set(8_500_000)
    assert (meter.scope, meter.joules()) == ("package:0", 3.5)


def test_a_counter_that_wraps_goes_on_counting(tmp_path: Path) -> None:
    domain = Domain(tmp_path / "intel-rapl:0", "package-0", RANGE_UJ - 1_000_000)
    (meter,), _ = open_rapl(tmp_path)
    domain.set(2_000_000)
    assert meter.joules() == pytest.approx(3.0)
    domain.set(5_000_000)
    assert meter.joules() == pytest.approx(6.0)


@given(st.lists(st.integers(0, 900_000), max_size=20))
def test_any_steps_shorter_than_the_range_add_up(tmp_path_factory: pytest.TempPathFactory, steps: list[int]) -> None:
    domain = Domain(tmp_path_factory.mktemp("powercap") / "intel-rapl:0", "package-0", 0, range_uj=1_000_000)
    (meter,), _ = open_rapl(domain.folder.parent)
    place, found = 0, 0.0
    for step in steps:
        place = (place + step) % 1_000_000
        domain.set(place)
        found = meter.joules() or 0.0
    assert found == pytest.approx(sum(steps) / 1e6)


def test_only_packages_are_read_since_the_other_domains_overlap(tmp_path: Path) -> None:
    for place, name in (
        ("0", "package-0"),
        ("0:0", "core"),
        ("0:1", "dram"),
        ("1", "package-1"),
        ("2", "psys"),
    ):
        Domain(tmp_path / f"intel-rapl:{place}", name)
    meters, _ = open_rapl(tmp_path)
    assert [meter.scope for meter in meters] == ["package:0", "package:1"]


def test_no_powercap_folder_names_the_virtual_machine(tmp_path: Path) -> None:
    found, reason = open_rapl(tmp_path / "powercap")
    assert found == ()
    assert "virtual machine" in (reason or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser reads every file")
def test_an_unreadable_counter_names_the_permission(tmp_path: Path) -> None:
    domain = Domain(tmp_path / "intel-rapl:0", "package-0")
    (domain.folder / "energy_uj").chmod(0)
    assert "permission denied" in (open_rapl(tmp_path)[1] or "")


def test_a_broken_counter_file_is_a_reason(tmp_path: Path) -> None:
    domain = Domain(tmp_path / "intel-rapl:0", "package-0")
    (domain.folder / "energy_uj").write_text("")
    assert open_rapl(tmp_path)[1] == "intel-rapl:0 cannot be read (ValueError)"


def test_a_counter_that_disappears_gives_no_reading(tmp_path: Path) -> None:
    domain = Domain(tmp_path / "intel-rapl:0", "package-0")
    (meter,), _ = open_rapl(tmp_path)
    (domain.folder / "energy_uj").unlink()
    assert meter.joules() is None


def test_a_gpu_counter_is_millijoules_since_opening_and_a_reset_is_no_reading() -> None:
    meter = BoardMeter("0", recorded_gpu(1_000_000, 1_250_000, 300).energy_mj, 1e3)
    assert meter.joules() == 250.0
    assert meter.joules() is None


def test_boards_without_a_counter_or_partitioned_are_refused_with_a_reason(tmp_path: Path) -> None:
    for gpu, word in ((recorded_gpu(None), "no energy counter"), (recorded_gpu(5, mig=1), "MIG")):
        meters = open_meters([gpu], tmp_path)
        assert meters.meters == ()
        assert word in meters.why()


def test_scopes_stay_apart(tmp_path: Path) -> None:
    Domain(tmp_path / "intel-rapl:0", "package-0")
    meters = open_meters([recorded_gpu(5)], tmp_path)
    assert sorted(meters.read()) == ["gpu:GPU-7", "package:0"]
    assert energy_facts(meters)["power.boundary"].value == ["gpu board", "processor package"]


def test_without_a_meter_the_record_says_why(tmp_path: Path) -> None:
    none = Meters((), {"RAPL": "no powercap folder"})
    fact = energy_facts(none)["power.source"]
    assert (fact.value, fact.source) == ("none", "RAPL: no powercap folder")
