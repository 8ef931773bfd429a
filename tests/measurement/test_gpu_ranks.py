"""Eight ranks on eight boards behind a fake NVML: record, energy, power, memory and ceilings are of all boards."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from material import spec_of, training
from nvml_machine import Board, Machine
from twinlens.executors.torch.evidence.facts import properties_facts
from twinlens.executors.torch.parallel.over_ranks import facts_over, memory_over
from twinlens.measurement.facts.completed import completed
from twinlens.measurement.machine.energy import open_meters
from twinlens.measurement.machine.nvidia import gpu_facts
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.record.samples import TELEMETRY_SCHEMA, Sample
from twinlens.record.sections import DeviceMemory
from twinlens.spec.study import RunSpec
from twinlens.stats.metrics.energy import energy, peak_memory
from twinlens.stats.metrics.training import _efficiency
from twinlens.system.nvml import open_gpus
from twinlens.units import FLOP_PER_S

EIGHT = [f"0000000{number}" for number in range(8)]
RATE = 690e12  # of one board; eight are 5.52 PFLOP/s
HELD = {"allocated_peak_bytes": 10, "reserved_peak_bytes": 20}


def spec() -> RunSpec:
    options = {"parallel": "fsdp2", "ranks": 8}
    executor = {"device": "cuda"}
    return spec_of(
        training("torch-parallel", "small", options=options, executor=executor, point={"precision": "bf16"},
                 global_batch=8)
    )  # fmt: skip


def of_rank(number: int, node: str = "a", name: str = "NVIDIA H100 80GB HBM3") -> Facts:
    seen = SimpleNamespace(name=name, uuid=EIGHT[number], major=9, minor=0, total_memory=80 << 30)
    place = {"node": node, "device": f"cuda:{number}"}
    fields = properties_facts(seen) | {"training.ranks": observed([place], "the rank of itself")}
    rate = Estimate(RATE, FLOP_PER_S, "products", "measured", RATE - 1, RATE + 1, n=9)
    return Facts(ExecutorRecord(fields), ceilings={"matrix_flop_per_s": rate})


def boards(**more: Any) -> list[Board]:
    return [Board(f"GPU-{uuid}", pids=[os.getpid()], **more) for uuid in EIGHT]


@pytest.fixture
def facts(machine: Any) -> Facts:
    machine(*boards())
    return completed(facts_over([of_rank(number) for number in range(8)], split=1), spec(), None)


def test_the_record_is_of_all_boards_and_their_ceiling_is_held_against_as_many_datasheets(facts: Facts) -> None:
    record = facts.executor
    assert record.value("accelerator.uuid") == [f"GPU-{uuid}" for uuid in EIGHT]
    assert (record.value("accelerator.count"), record.value("interconnect.node_count")) == (8, 1)
    assert [place["device"] for place in record.value("training.ranks")] == [f"cuda:{n}" for n in range(8)]
    assert {place["node"] for place in record.value("training.ranks")} == {0}, "a number and no name of a machine"
    assert facts.ceilings["matrix_flop_per_s"].value == 8 * RATE, "not refused as above the datasheet of one board"
    assert facts.ceilings["datasheet_flop_per_s"].value == pytest.approx(8 * 989.4e12, rel=0.01)
    assert facts.ceilings["datasheet_bytes_per_s"].value == pytest.approx(8 * 3.35e12)
    steps = Estimate(2.0, "1/s", "steps", "measured")
    work = {"step_flop": Estimate(8e14, "flop", "theory", "modelled")}
    shares = _efficiency(steps, 1.0, Facts(record, work=work, ceilings=facts.ceilings))
    assert shares["mfu"].value == pytest.approx(16e14 / (8 * RATE))
    assert shares["mfu_datasheet"].value == pytest.approx(16e14 / (8 * 989.4e12), rel=0.01)


def test_boards_that_differ_are_told_by_product_and_have_no_datasheet(machine: Any) -> None:
    machine()
    mixed = completed(facts_over([of_rank(0), of_rank(1, name="NVIDIA A100-SXM4-80GB")], split=1), spec(), None)
    product = mixed.executor.value("accelerator.product")
    assert product == {"NVIDIA H100 80GB HBM3": 1, "NVIDIA A100-SXM4-80GB": 1}
    assert "datasheet_flop_per_s" not in mixed.ceilings


@pytest.mark.parametrize(("times", "kept"), [(1.0, True), (1.25, True), (8.0, False)])
def test_a_board_without_a_datasheet_reads_no_faster_than_its_memory_is_clocked(
    times: float, kept: bool, machine: Any
) -> None:
    """An RTX 4090's 10,501 MHz on 384 bits are 1,008 GB/s, as its datasheet says; that of a laptop has none here."""
    laptop = "NVIDIA GeForce RTX 4090 Laptop GPU"
    machine(*[Board(f"GPU-{uuid}", name=laptop, memory_mhz=9001, bus_bits=256) for uuid in EIGHT[:2]])
    rate = Estimate(times * 576e9, "byte/s", "read", "measured", n=9)
    ranks = [replace(of_rank(number, name=laptop), ceilings={"read_bytes_per_s": rate}) for number in range(2)]
    found = completed(facts_over(ranks, split=1), spec(), None)
    assert found.executor.value("accelerator.memory_bytes_per_s_spec") == pytest.approx(576.064e9)
    read = found.ceilings["read_bytes_per_s"]
    assert (read.value is not None) == kept
    assert kept or "of its memory's clock and bus: not a rate of this device" in str(read.reason)
    assert "datasheet_bytes_per_s" not in found.ceilings, "a bound, and no datasheet"


def test_the_memory_clock_of_a_known_board_gives_its_datasheets_bandwidth(machine: Any) -> None:
    for mhz, bits, stated in ((10501, 384, 1008e9), (2619, 5120, 3.35e12), (1593, 5120, 2.039e12), (5001, 256, 320e9)):
        machine(Board("GPU-0", memory_mhz=mhz, bus_bits=bits))
        said = gpu_facts(open_gpus(["GPU-0"])[0], None)["accelerator.memory_bytes_per_s_spec"].value
        assert said == pytest.approx(stated, rel=0.001), "RTX 4090, H100 SXM, A100 80 GB, T4"


def sampled(machine: Machine, names: list[str]) -> pa.Table:
    """Telemetry over 20 s in which board k draws 100 (k + 1) W."""
    gpus, _ = open_gpus(names)
    meters = open_meters(gpus, Path("/nowhere"), boards=names)
    rows: list[dict[str, Any]] = []
    sampler = Sampler(rows.extend, gpus, meters=meters)
    for second in range(21):
        for number, board in enumerate(machine.boards):
            board.energy_mj = None if board.energy_mj is None else 5000 + second * 100_000 * (number + 1)
        rows += [row | {"time_ns": second * 10**9} for row in sampler.read()]
    return pa.Table.from_pylist(rows, schema=TELEMETRY_SCHEMA)


def test_energy_and_power_are_the_sum_of_all_boards_meters(machine: Any) -> None:
    here = machine(*boards())
    spent = energy(sampled(here, [f"GPU-{uuid}" for uuid in EIGHT]), 0.0, 20.0, {"j": 1.0}, "no counter", "gpu")
    assert spent["j"].value == pytest.approx(20 * 3600.0)  # 100 + 200 + … + 800 W
    assert spent["mean_power_w"].value == pytest.approx(3600.0)


@pytest.mark.parametrize("lost", ["refused", "of another node"])
def test_energy_of_seven_boards_is_none_of_eight(lost: str, machine: Any) -> None:
    known = boards()
    if lost == "refused":
        known[3].energy_mj = None
    here = machine(*(known if lost == "refused" else known[:7]))
    names = [f"GPU-{uuid}" for uuid in EIGHT]
    assert energy(sampled(here, names), 0.0, 20.0, {"j": 1.0}, "why", "gpu")["j"].value is None
    whole = completed(facts_over([of_rank(number) for number in range(8)], split=1), spec(), None)
    source = whole.executor.facts["power.source"]
    assert (source.value, "counters of 7 of 8 boards" in source.source) == ("none", True)


def test_ranks_of_two_nodes_are_told_apart() -> None:
    facts = facts_over([of_rank(0, "a"), of_rank(1, "b"), of_rank(2, "a")], split=1)
    assert [place["node"] for place in facts.executor.value("training.ranks")] == [0, 1, 0]
    assert facts.executor.value("interconnect.node_count") == 2


def test_the_peak_is_of_all_boards_and_names_the_fullest() -> None:
    told = memory_over([HELD, {"allocated_peak_bytes": 30, "reserved_peak_bytes": 30}])
    assert told == {"allocated_peak_bytes": 40, "reserved_peak_bytes": 50, "boards": 2, "fullest_peak_bytes": 30}
    assert memory_over([None, None]) is None
    rows = [Sample(0, f"gpu:GPU-{name}", memory_used_bytes=35).to_row() for name in "ab"]
    table = pa.Table.from_pylist(rows, schema=TELEMETRY_SCHEMA)
    peak = peak_memory(table, on_gpu=True, allocator=DeviceMemory(**told))
    assert peak.value == 40
    assert "summed over 2 boards, of which the fullest 30.0 B (50.0 B reserved; the 2 boards had 70.0 B" in peak.method
