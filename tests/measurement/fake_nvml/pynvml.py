"""Two boards behind the names of nvidia-ml-py, in a file that several processes share: $FAKE_NVML."""

from __future__ import annotations

import json
import os
from pathlib import Path


class NVMLError(Exception):
    """Refused."""


def _boards() -> dict[str, dict[str, int]]:
    return json.loads(Path(os.environ["FAKE_NVML"]).read_text())


def nvmlInit() -> None: ...


def nvmlDeviceGetCount() -> int:
    return len(_boards())


def nvmlDeviceGetHandleByIndex(index: int) -> str:
    return list(_boards())[index]


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:
    raise NVMLError("not found")


def nvmlDeviceGetUUID(handle: str) -> str:
    return handle


def nvmlDeviceGetPowerManagementLimit(handle: str) -> int:
    return _boards()[handle]["limit"]


def nvmlDeviceGetPowerManagementLimitConstraints(handle: str) -> list[int]:
    return [200_000, 700_000]


def nvmlDeviceSetPowerManagementLimit(handle: str, limit: int) -> None:
    boards = _boards()
    if boards[handle].get("locked"):
        raise NVMLError("Insufficient Permissions")
    boards[handle]["limit"] = limit
    Path(os.environ["FAKE_NVML"]).write_text(json.dumps(boards))
