"""AdamW over parameters of tensor parallelism: divided ones beside plain ones, and one fused kernel for each sort."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from twinlens.executors.torch.parallel.training import _alike  # noqa: E402


@pytest.fixture
def mesh() -> Iterator[Any]:
    """Four ranks, of which this is one and the others are not there."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield init_device_mesh("cpu", (4,))
    dist.destroy_process_group()


def test_the_optimizer_of_tensor_parallelism_is_fused_as_that_of_one_process_is(mesh: Any) -> None:
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.LayerNorm(16))
    parallelize_module(model, mesh, {"0": ColwiseParallel()})
    groups = _alike(model)
    assert [len(group["params"]) for group in groups] == [1, 2], "the divided weight, then those of the norm"
    optimizer = torch.optim.AdamW(groups, lr=0.1, fused=True)
    before = [each.detach().clone() for each in model.parameters()]
    for each in model.parameters():
        each.grad = torch.ones_like(each)
    optimizer.step()
    for each, was in zip(model.parameters(), before, strict=True):
        moved = each.detach() - was
        assert bool((getattr(moved, "to_local", lambda moved=moved: moved)() != 0).all())
