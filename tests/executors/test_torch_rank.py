"""One rank in this process: the order in which it opens a run, and what it says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from material import quiet, spec_of, training  # noqa: E402
from twinlens.executors.torch.parallel import rank as rank_module  # noqa: E402
from twinlens.executors.torch.parallel.rank import Rank  # noqa: E402
from twinlens.record.codec import decode  # noqa: E402
from twinlens.record.executor.facts import Facts  # noqa: E402


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A rank of a world of one."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    rank = Rank(quiet)
    yield rank
    rank.close()


@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_the_peak_is_forgotten_last_so_that_it_is_that_of_the_rows(
    parallel: str, alone: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    for name in ("training_facts", "exchange_times", "alone", "together", "forget_peak"):
        real = getattr(rank_module, name)

        def noted(*given: Any, name: str = name, real: Any = real) -> Any:
            order.append(name)
            return real(*given)

        monkeypatch.setattr(rank_module, name, noted)
    asked = spec_of(training("torch-parallel", options={"parallel": parallel, "ranks": 1}, global_batch=2))
    told = alone.obey({"order": "open", "spec": asked.to_dict()})
    assert order == ["training_facts", "exchange_times", "alone", "together", "forget_peak"]
    (place,) = decode(Facts, told["facts"]).executor.value("training.ranks")
    assert place["device"] == "cpu"
    assert decode(Facts, told["facts"]).executor.value("interconnect.collectives") == "gloo"
    alone.obey({"order": "open-again", "spec": asked.to_dict()})
    assert order[-1] == "forget_peak"
