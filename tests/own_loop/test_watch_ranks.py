"""A watched model whose layers several ranks compute together: torch's own tensor parallelism, without other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor.parallel import (  # noqa: E402
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.profiler import profile  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from material import spec_of, training  # noqa: E402
from nvml_machine import Board  # noqa: E402
from twinlens.executors.torch.evidence.flop import profiled_work  # noqa: E402
from twinlens.executors.torch.own_loop import side  # noqa: E402
from twinlens.executors.torch.own_loop.evidence import ranks_of_layers  # noqa: E402
from twinlens.measurement.machine.energy import open_meters  # noqa: E402
from twinlens.measurement.own_loop.facts import one_rank_of, whole_facts  # noqa: E402
from twinlens.record.executor.facts import Facts  # noqa: E402
from twinlens.record.executor.record import ExecutorRecord  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.spec.model.any_model import AnyModel  # noqa: E402
from twinlens.system.nvml import open_gpus  # noqa: E402

pytestmark = pytest.mark.torch
WHOLE_FLOP = 2 * 8 * 64 * 256 * 5  # forward, both gradients of the second layer, that of the weights of the first


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    """Two copies of four ranks; exchanges with ranks that are not there return at once."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    yield init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "tensor"))
    dist.destroy_process_group()


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256, bias=False), nn.ReLU(), nn.Linear(256, 64, bias=False))


def split(model: nn.Module, over: Any) -> nn.Module:
    return parallelize_module(model, over, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def flop_of(model: nn.Module) -> float:
    """Of the second pass, as it is watched: in the first, torch tries operators on tensors without memory."""
    model(torch.randn(8, 64)).sum().backward()
    with profile(record_shapes=True) as seen:
        model(torch.randn(8, 64)).sum().backward()
    return profiled_work(seen.events()).flop


def test_ranks_that_compute_each_layer_together_are_those_of_tensor_parallelism_alone(mesh: Any) -> None:
    assert ranks_of_layers(layers()) == 1
    assert ranks_of_layers(split(layers(), mesh["tensor"])) == 4
    assert ranks_of_layers(fully_shard(layers(), mesh=mesh["data"])) == 1, "each gathers a layer and computes all of it"
    assert ranks_of_layers(fully_shard(layers(), mesh=mesh)) == 1, "copies of shards are no tensor parallelism"
    assert ranks_of_layers(fully_shard(split(layers(), mesh["tensor"]), mesh=mesh["data"])) == 4


def test_a_product_of_a_divided_tensor_is_counted_once_and_as_this_ranks_part(mesh: Any) -> None:
    assert flop_of(layers()) == WHOLE_FLOP
    assert flop_of(split(layers(), mesh["tensor"])) == WHOLE_FLOP / 4, "and not with the whole around it, three times"


def test_the_work_that_four_ranks_do_together_is_a_quarter_on_one_board(mesh: Any) -> None:
    asked = spec_of(training(global_batch=8))
    model = asked.model
    ref = AnyModel(name="small", config=model.config, shape=model.shape, source="model.config")
    alone, shared = (
        whole_facts(asked, Facts(ExecutorRecord({})), {}, ref, even=True, split=count).work for count in (1, 4)
    )
    for name in ("step_flop", "step_bytes"):
        assert shared[name].value == pytest.approx((alone[name].value or 0) / 4)
    assert shared["parameters"].value == alone["parameters"].value
    assert "its share of the 4 ranks" in shared["step_flop"].method


def test_energy_of_one_of_four_boards_is_none_of_their_samples(
    mesh: Any, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(Board("GPU-0"), Board("GPU-1"))
    monkeypatch.setattr(side, "boards_of", lambda model: (torch.device("cuda:0"),))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda board: SimpleNamespace(uuid="0"))

    def used(model: nn.Module) -> tuple[str, ...]:
        watched = side.TorchSide(model, torch.optim.SGD(model.parameters(), lr=0.1), profile=False)
        assert watched.gpus is not None
        return watched.gpus

    boards = used(split(layers(), mesh["tensor"]))
    meters = open_meters(open_gpus(boards)[0], Path("/nowhere"), boards=boards)
    assert (meters.meters, "counters of 1 of 4 boards" in meters.why()) == ((), True)
    boards = used(fully_shard(layers(), mesh=mesh["data"]))
    meters = open_meters(open_gpus(boards)[0], Path("/nowhere"), boards=boards)
    assert [each.scope for each in meters.meters] == ["gpu:GPU-0"], "its own samples, and its own board"


def test_the_finding_says_which_ranks_share_the_samples() -> None:
    (apart,), (together,) = one_rank_of(8), one_rank_of(8, 4)
    assert "rates count its own samples, not the job's" in sentence_of(apart)
    assert "8 ranks, 4 of which compute each layer together" in sentence_of(together)
    assert one_rank_of(1) == ()
