"""Ranks that are kept on the processors of their GPU's NUMA node: torchrun's own flag, and where there is none."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

from torch.distributed import run as torchrun  # noqa: E402

from material import spec_of, training  # noqa: E402
from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.refuse import refuse_not_installed  # noqa: E402
from twinlens.executors.torch.parallel import entry, program, trainer  # noqa: E402


@pytest.mark.parametrize("numa", ["none", "node"])
def test_ranks_are_kept_near_their_gpus_by_torchrun_where_that_is_asked(
    numa: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(program, "Process", lambda command, *_, **__: started.append(command))
    monkeypatch.setattr(trainer, "on_processor", lambda device: False)
    asked = spec_of(training("torch-parallel", options={"numa": numa}, executor={"device": "cuda"}))
    program.Torchrun(2, 1, trainer.TORCH.program_of(asked, lambda phrase: None), "socket", tmp_path)
    (command,) = started
    assert (" --numa-binding node -m " in " ".join(command)) == (numa == "node")
    assert "--numa-binding" not in command or torchrun.get_args_parser().parse_args(command[3:]).numa_binding == "node"
    monkeypatch.setattr(entry, "which", lambda name: None)
    with refused("takes numactl, which is not installed here", numa):
        refuse_not_installed(asked)
    monkeypatch.setattr(trainer, "on_processor", lambda device: True)
    with refused("these ranks have none", numa):
        trainer.TORCH.program_of(asked, lambda phrase: None)


def refused(sentence: str, numa: str) -> Any:
    return pytest.raises(BadInput, match=sentence) if numa == "node" else nullcontext()
