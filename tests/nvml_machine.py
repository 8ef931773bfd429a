"""A machine of NVIDIA boards behind NVML's names, answering with the types and errors of nvidia-ml-py itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pynvml


@dataclass
class Board:
    """One board, or a MIG slice of one (`board`). `pids`: processes that NVML lists; None: the query is refused."""

    uuid: str
    name: str | None = "NVIDIA H100 80GB HBM3"
    free: int = 70 << 30
    pids: Sequence[int] | None = ()
    mig: int = 0
    energy_mj: int | None = 5000
    memory_mhz: int | None = None
    bus_bits: int | None = None
    board: Board | None = None
    slices: list[Board] = field(default_factory=list)


class Machine:
    """What `gpus_of` takes for pynvml."""

    NVMLError = pynvml.NVMLError
    NVML_NVLINK_MAX_LINKS = pynvml.NVML_NVLINK_MAX_LINKS

    def __init__(self, *boards: Board, driver: str = "580.65.06", cuda: int = 13000) -> None:
        self.boards, self.driver, self.cuda = boards, driver, cuda

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return len(self.boards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Board:
        return self.boards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Board:
        for board in self.boards:
            for one in (board, *board.slices):
                if one.uuid == uuid:
                    return one
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, one: Board) -> Board:
        if one.board is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return one.board

    def nvmlDeviceGetUUID(self, one: Board) -> str:
        return one.uuid

    def nvmlDeviceGetName(self, one: Board) -> str:
        return _or_refused(one.name)

    def nvmlDeviceGetMemoryInfo(self, one: Board) -> Any:
        total = one.free + (10 << 30)
        return pynvml.c_nvmlMemory_t(total=total, free=one.free, used=total - one.free)

    def nvmlDeviceGetMigMode(self, one: Board) -> list[int]:
        _whole(one)
        return [one.mig, one.mig]

    def nvmlDeviceGetPowerUsage(self, one: Board) -> int:
        _whole(one)
        return 350_000

    def nvmlDeviceGetTotalEnergyConsumption(self, one: Board) -> int:
        _whole(one)
        return _or_refused(one.energy_mj)

    def nvmlDeviceGetCudaComputeCapability(self, one: Board) -> tuple[int, int]:
        _whole(one)
        return 9, 0

    def nvmlDeviceGetApplicationsClock(self, one: Board, kind: int) -> int:
        _whole(one)
        return 1410 if kind == pynvml.NVML_CLOCK_SM else 2619

    def nvmlDeviceGetDefaultApplicationsClock(self, one: Board, kind: int) -> int:
        _whole(one)
        return 1980 if kind == pynvml.NVML_CLOCK_SM else 2619

    def nvmlDeviceGetMaxClockInfo(self, one: Board, kind: int) -> int:
        _whole(one)
        return _or_refused(one.memory_mhz if kind == pynvml.NVML_CLOCK_MEM else None)

    def nvmlDeviceGetMemoryBusWidth(self, one: Board) -> int:
        _whole(one)
        return _or_refused(one.bus_bits)

    def nvmlDeviceGetComputeRunningProcesses(self, one: Board) -> list[Any]:
        pids = _or_refused(one.pids)
        return [pynvml.c_nvmlProcessInfo_t(pid=pid, usedGpuMemory=1 << 30) for pid in pids]

    def nvmlDeviceGetNvLinkState(self, one: Board, link: int) -> int:
        _whole(one)
        if link >= 18:  # of an H100
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return self.driver

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return self.cuda


def boards(uuids: Sequence[str]) -> tuple[Board, ...]:
    """Boards that are alike."""
    return tuple(map(Board, uuids))


def with_slices(board: Board, *slices: Board) -> Board:
    """The board in MIG mode, cut into these."""
    board.mig = 1
    for one in slices:
        one.board = board
    board.slices = list(slices)
    return board


def _or_refused(value: Any) -> Any:
    if value is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return value


def _whole(one: Board) -> None:
    """What is asked of a board and refused of a slice."""
    if one.board is not None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
