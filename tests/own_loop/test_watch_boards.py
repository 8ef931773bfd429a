"""A watched model over several boards, without one: torch's own devices, properties stood in for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

from twinlens.executors.torch.own_loop import evidence, side  # noqa: E402
from twinlens.measurement.own_loop.facts import machine_facts  # noqa: E402
from twinlens.record.estimate import Estimate  # noqa: E402
from twinlens.record.executor.record import ExecutorRecord  # noqa: E402

pytestmark = pytest.mark.torch


class Over:
    """What is asked of a model: tensors, each on a device."""

    def __init__(self, *devices: str) -> None:
        self._held = [SimpleNamespace(device=torch.device(name)) for name in devices]

    def parameters(self) -> Any:
        return iter(self._held)

    def buffers(self) -> Any:
        return iter(())

    def modules(self) -> Any:
        return iter(())


@pytest.fixture(autouse=True)
def boards(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "NVIDIA T400")

    def properties(device: Any) -> Any:
        at = torch.device(device).index or 0
        return SimpleNamespace(name=names[at], major=9, minor=0, total_memory=80 << 30, uuid=f"{at}-x")

    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)


def test_a_model_over_two_boards_is_charged_with_both(machine: Any) -> None:
    from nvml_machine import Board

    model: Any = Over("cuda:1", "cuda:0", "cuda:1", "cpu")
    assert [str(device) for device in evidence.boards_of(model)] == ["cuda:0", "cuda:1"]
    watched = SimpleNamespace(_core=model)
    assert side.TorchSide.gpus.fget(watched) == ("GPU-0-x", "GPU-1-x")  # type: ignore[attr-defined]
    record = ExecutorRecord(evidence.board_facts(model))
    assert record.value("accelerator.count") == 2
    assert record.value("accelerator.uuid") == ["GPU-0-x", "GPU-1-x"]
    machine(Board("GPU-0-x"), Board("GPU-1-x"), Board("GPU-2-x"))
    seen = ExecutorRecord(machine_facts(("GPU-0-x", "GPU-1-x"), on_gpu=True, says_device=True))
    assert seen.value("accelerator.count") == 2, "and its energy is that of two"


def test_boards_that_differ_have_no_one_name_and_a_processor_has_none() -> None:
    assert evidence.board_facts(Over("cuda:0", "cuda:2"))["accelerator.product"].value is None  # type: ignore[arg-type]
    assert evidence.board_facts(Over("cuda:0"))["accelerator.count"].value == 1  # type: ignore[arg-type]
    assert evidence.board_facts(Over("cpu")) == {}  # type: ignore[arg-type]
    assert side.TorchSide.gpus.fget(SimpleNamespace(_core=Over("cpu"))) is None  # type: ignore[attr-defined]


def test_ceilings_of_two_boards_are_twice_those_of_one() -> None:
    one = Estimate(3e12, "byte/s", "read, cuda:0", "measured", low=2.9e12, high=3.1e12, n=9)
    two = side._times(one, 2)
    assert (two.value, two.low, two.high) == (6e12, 5.8e12, 6.2e12)
    assert two.method == "2 boards × read, cuda:0"
    assert side._times(Estimate.absent("byte/s", "no room"), 2).value is None
