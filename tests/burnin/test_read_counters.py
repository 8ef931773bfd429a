"""Counters of a board and of a processor: read where they can be, with a reason where not, and never 0 instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pynvml
from tests.nvml_machine import Board, Machine, boards

from twinlens.acceptance.criteria import COUNTERS
from twinlens.acceptance.driving.counters import Xids, read_gpu, read_processor
from twinlens.system.nvml import gpus_of


class Counting(Machine):
    """A machine whose boards have counters, and one event of each error that is waiting."""

    nvmlEventTypeXidCriticalError = pynvml.nvmlEventTypeXidCriticalError

    def __init__(self, *given: Board, waiting: tuple[int, ...] = (), nvlink: int | None = 0) -> None:
        super().__init__(*given)
        self.waiting, self.nvlink, self.registered = list(waiting), nvlink, list[Board]()

    def nvmlDeviceGetTotalEccErrors(self, one: Board, kind: int, since: int) -> int:
        return {0: 17, 1: 2}[kind] + (1000 if since == 1 else 0)

    def nvmlDeviceGetRemappedRows(self, one: Board) -> tuple[int, int, int, int]:
        return 3, 1, 0, 0

    def nvmlDeviceGetPcieReplayCounter(self, one: Board) -> int:
        return 5

    def nvmlDeviceGetCurrPcieLinkWidth(self, one: Board) -> int:
        return 16

    def nvmlDeviceGetCurrPcieLinkGeneration(self, one: Board) -> int:
        return 5

    def nvmlDeviceGetTemperature(self, one: Board, sensor: int) -> int:
        return 64

    def nvmlDeviceGetNvLinkErrorCounter(self, one: Board, link: int, kind: int) -> int:
        if self.nvlink is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self.nvlink

    def nvmlEventSetCreate(self) -> str:
        return "set"

    def nvmlDeviceRegisterEvents(self, one: Board, kinds: int, where: str) -> None:
        self.registered.append(one)

    def nvmlEventSetWait_v2(self, where: str, milliseconds: int) -> Any:
        if not self.waiting:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return type("Event", (), {"device": self.boards[self.waiting.pop()]})


def test_every_counter_of_a_board_is_read() -> None:
    gpus, _ = gpus_of(Counting(*boards(["GPU-a"]), nvlink=1))
    told = read_gpu(gpus[0], Xids(gpus))
    assert {name: told.counters[name] for name in COUNTERS} == {
        "ecc_corrected": 1017, "ecc_uncorrected": 1002, "xid": 0, "pcie_replays": 5, "link_errors": 18 * 4,
        "pcie_width": 16, "pcie_generation": 5,
    }  # fmt: skip
    assert told.counters["remapped_rows"] == 4
    assert (told.device, told.temperature_c, told.has_not) == ("gpu:GPU-a", 64.0, ())
    assert set(told.missing) == {"retired_pages"}


def test_errors_of_the_driver_are_counted_for_their_board() -> None:
    machine = Counting(*boards(["GPU-a", "GPU-b"]), waiting=(1, 0, 1))
    gpus, _ = gpus_of(machine)
    xids = Xids(gpus)
    assert tuple(machine.registered) == machine.boards
    assert [xids.read(gpu) for gpu in gpus] == [1, 2]
    machine.waiting.append(0)
    assert [xids.read(gpu) for gpu in gpus] == [2, 2]


def test_what_a_board_refuses_is_missing_with_a_reason_and_is_not_zero() -> None:
    gpus, _ = gpus_of(Machine(*boards(["GPU-a"])))
    told = read_gpu(gpus[0], Xids(gpus))
    assert told.counters == {}
    assert set(told.missing) >= {*COUNTERS, "temperature"}
    assert "NVML tells no Xid events here" in told.missing["xid"]


def test_a_link_that_tells_no_errors_is_missing_and_a_board_without_one_has_none() -> None:
    gpus, _ = gpus_of(Counting(*boards(["GPU-a"]), nvlink=None))
    assert "link_errors" in read_gpu(gpus[0], Xids(gpus)).missing

    class Alone(Counting):
        def nvmlDeviceGetNvLinkState(self, one: Board, link: int) -> int:
            return 0

    gpus, _ = gpus_of(Alone(*boards(["GPU-a"])))
    told = read_gpu(gpus[0], Xids(gpus))
    assert told.has_not == ("link_errors",)
    assert "link_errors" not in {*told.counters, *told.missing}


def _write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_throttling_of_cores_adds_up_and_a_package_counts_once(tmp_path: Path) -> None:
    for core, count in ((0, 3), (1, 4), (2, 0)):
        place = f"cpu/cpu{core}"
        files = {
            f"{place}/thermal_throttle/core_throttle_count": f"{count}\n",
            f"{place}/thermal_throttle/package_throttle_count": "9\n",
            f"{place}/topology/physical_package_id": f"{core // 2}\n",
        }
        _write(tmp_path, **files)
    _write(tmp_path, **{"edac/mc/mc0/ce_count": "2\n", "edac/mc/mc1/ce_count": "5\n", "edac/mc/mc0/ue_count": "0\n"})
    told = read_processor(tmp_path)
    assert told.counters == {"core_throttles": 7, "package_throttles": 18, "ecc_corrected": 7, "ecc_uncorrected": 0}


def test_a_processor_without_counters_says_what_the_kernel_lacks(tmp_path: Path) -> None:
    told = read_processor(tmp_path)
    assert told.counters == {}
    assert "edac" in told.missing["ecc_corrected"]
    assert "thermal_throttle" in told.missing["core_throttles"]
    assert set(told.has_not) == {"xid", "pcie_replays", "pcie_width", "pcie_generation", "link_errors"}
