"""Which device is taken, and what is said where a GPU is there and cannot be used: torch's answers are stood in for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from material import quiet, spec_of, training

torch = pytest.importorskip("torch", reason="needs the torch extra")

from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.torch.device import auto_note, choose_device, why_no_gpu  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.spec.device import asked_device  # noqa: E402
from twinlens.system import gpu_driver  # noqa: E402

pytestmark = pytest.mark.torch
DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2026\n"


def host(root: Path, *devices: str) -> Path:
    """A machine whose kernel has the driver loaded, and that has these devices."""
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text(DRIVER)
    (root / "dev").mkdir()
    for name in devices:
        (root / "dev" / name).touch()
    return root


class Board:
    """What torch.cuda says of one machine; `current` is what `set_device` was told."""

    def __init__(self, patch: pytest.MonkeyPatch, count: int, capability: tuple[int, int], archs: list[str]) -> None:
        self.current: Any = None
        for name, answer in {
            "is_available": lambda: count > 0,
            "device_count": lambda: count,
            "get_device_capability": lambda index=None: capability,
            "get_arch_list": lambda: archs,
            "get_device_name": lambda index=None: "Tesla V100-SXM2-16GB",
            "set_device": self._set,
        }.items():
            patch.setattr(torch.cuda, name, answer)
        patch.setattr(torch.version, "cuda", "13.0")
        patch.setattr(gpu_driver, "_ROOT", Path("/nowhere/at/all"))
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def _set(self, index: int) -> None:
        self.current = index


CUDA_13 = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "compute_120"]


def test_the_chosen_gpu_becomes_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(monkeypatch, 2, (9, 0), CUDA_13)
    assert choose_device(asked_device("cuda:1")) == torch.device("cuda", 1)
    assert board.current == 1, "events and streams that name no device belong to the current one"
    assert choose_device(asked_device("auto")) == torch.device("cuda", 0)
    assert board.current == 0


def test_a_device_that_is_not_there_is_refused_with_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    Board(monkeypatch, 2, (9, 0), CUDA_13)
    with pytest.raises(BadInput, match="torch sees 2 CUDA devices") as refused:
        choose_device(asked_device("cuda:2"))
    assert refused.value.code == "TL208"
    Board(monkeypatch, 0, (9, 0), CUDA_13)
    with pytest.raises(BadInput, match="torch sees 0 CUDA devices; use cpu or auto"):
        choose_device(asked_device("cuda"))


def test_an_old_driver_is_named_with_the_remedy_and_auto_says_it_took_the_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Board(monkeypatch, 0, (9, 0), CUDA_13)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)  # NVML counts boards that CUDA cannot open
    monkeypatch.setattr(gpu_driver, "_ROOT", host(tmp_path, "nvidia0"))
    with pytest.raises(BadInput, match=r"under the NVIDIA driver 535\.104\.05; install a newer driver") as refused:
        choose_device(asked_device("cuda"))
    assert "CUDA 13.0" in str(refused.value)
    assert choose_device(asked_device("auto")) == torch.device("cpu")
    assert "535.104.05" in (auto_note(asked_device("auto")) or "")
    assert auto_note(asked_device("cpu")) is None, "who asks for the CPU gets it without a word"
    facts = TorchTrainer().open(spec_of(training(executor={"device": "auto"})), quiet)
    assert any(note.startswith("This run is on the CPU: torch") for note in map(sentence_of, facts.findings))
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "install a CUDA build of torch" in (why_no_gpu() or "")


def test_a_gpu_that_is_withheld_is_no_reason_to_install_a_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Board(monkeypatch, 0, (9, 0), CUDA_13)
    monkeypatch.setattr(gpu_driver, "_ROOT", host(tmp_path))
    with pytest.raises(BadInput, match=r"was given no GPU \(no /dev/nvidia0\); start its container with --gpus all"):
        choose_device(asked_device("cuda"))
    (tmp_path / "dev/nvidia0").touch()
    for mask in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
        assert auto_note(asked_device("auto")) == (
            f"This run is on the CPU: CUDA_VISIBLE_DEVICES={mask!r} hides every GPU; unset it."
        )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert "install a newer driver" in str(why_no_gpu())


def test_a_driver_under_wsl2_is_not_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Board(monkeypatch, 0, (9, 0), CUDA_13)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/dxg").touch()
    (tmp_path / "usr/lib/wsl/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/wsl/lib/libcuda.so.1").touch()
    monkeypatch.setattr(gpu_driver, "_ROOT", tmp_path)
    assert "under the NVIDIA driver of Windows (WSL2); install a newer driver" in str(why_no_gpu())


@pytest.mark.parametrize(
    ("capability", "archs", "works"),
    [
        ((7, 0), CUDA_13, False),
        ((8, 6), CUDA_13, True),  # machine code of the same major generation runs
        ((8, 9), ["sm_80"], True),
        ((9, 0), ["sm_80", "compute_80"], True),  # translated on first use
        ((12, 1), CUDA_13, True),
        ((12, 0), ["sm_90a"], False),
        ((7, 0), ["sm_50", "sm_70"], True),
    ],
)
def test_a_build_without_kernels_for_the_board_is_refused_before_the_first_kernel(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], archs: list[str], works: bool
) -> None:
    Board(monkeypatch, 1, capability, archs)
    if works:
        assert choose_device(asked_device("cuda")).type == "cuda"
        return
    with pytest.raises(BadInput, match="has no kernels for Tesla V100-SXM2-16GB"):
        choose_device(asked_device("cuda"))
    assert choose_device(asked_device("auto")) == torch.device("cpu")


def test_amd_and_apple_gpus_are_refused_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    Board(monkeypatch, 1, (9, 0), CUDA_13)  # ROCm answers as torch.cuda, with capabilities that mean something else
    monkeypatch.setattr(torch.version, "hip", "6.4.1")
    for asked in ("cuda", "cuda:0"):
        with pytest.raises(BadInput, match=r"built for AMD GPUs \(ROCm 6\.4\.1\)"):
            choose_device(asked_device(asked))
    assert choose_device(asked_device("auto")) == torch.device("cpu")
    with pytest.raises(BadInput, match="Apple GPUs are not supported"):
        choose_device(asked_device("mps"))
