"""A model divided over the ranks of a mesh, through torch's public interfaces."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from twinlens.executors.torch.evidence.subject import Engine
from twinlens.executors.torch.marks import mark
from twinlens.executors.torch.parallel.mesh import DATA_AXES, data_rank, mesh_of
from twinlens.executors.torch.parallel.options import ParallelOptions
from twinlens.executors.torch.parallel.pipeline import Fill, Pipeline, pipeline_of
from twinlens.executors.torch.parallel.tensor_parallel import keep_own_gradients, split_layers


@dataclass(frozen=True, slots=True)
class Flight:
    """One all-reduce of gradients, in ns of the monotonic clock; on a GPU its times are those of being enqueued."""

    index: int
    bytes: int
    begin_ns: int
    end_ns: int


@dataclass(slots=True)
class Buckets:
    """The all-reduces of one backward pass under DDP, in the order in which they left. `last`: the mark at which the
    last bucket left, after which a rank only waits. `sent_bytes`: since somebody set it to 0."""

    flights: list[Flight] = field(default_factory=list)
    storages: dict[int, int] = field(default_factory=dict)
    sent_bytes: int = 0
    last: Any = None

    def forget(self) -> None:
        self.flights.clear()
        self.last = None


@dataclass(frozen=True, slots=True)
class Divided:
    """`forward` is what is called, `model` what holds the parameters of this rank. `buckets`: of DDP alone.

    `data_rank`: its place among ranks that see different data. `pipeline`: under "pp" alone; `forward` is not called
    there. `engine`: what has taken over the backward pass and the update, where torch does not do them.
    """

    model: nn.Module
    forward: nn.Module
    data_rank: int
    buckets: Buckets | None = None
    pipeline: Pipeline | None = None
    engine: Engine | None = None


def divide(
    model: nn.Module, options: ParallelOptions, device: torch.device, precision: str, microbatches: int, fill: Fill
) -> Divided:
    """DDP takes a model that has its weights already. Raises BadInput (TL202) where torch cannot divide it so."""
    mesh = mesh_of(options, device.type)
    if options.parallel == "pp":
        pipeline = pipeline_of(model, options, device, precision, microbatches, fill)
        return Divided(pipeline.model, pipeline.model, 0, pipeline=pipeline)
    if options.parallel == "ddp":
        return _ddp(model, options, device, mesh)
    if "tensor" in options.mesh:
        split_layers(model, mesh["tensor"])
    if options.parallel == "tp":
        fill(model)
        keep_own_gradients(model)
        return Divided(model, model, 0)
    _shard(model, options, mesh, precision)
    fill(model)
    return Divided(model, model, data_rank(mesh))


def set_sync(divided: Divided, is_last: bool) -> None:
    """Whether gradients are exchanged in the next backward pass: only after the last microbatch of a step."""
    if divided.engine is not None:
        divided.engine.set_last(is_last)
    elif divided.buckets is not None:
        divided.forward.require_backward_grad_sync = is_last
    elif hasattr(divided.model, "set_requires_gradient_sync"):
        divided.model.set_requires_gradient_sync(is_last)


def layers_of(model: nn.Module) -> list[nn.Module]:
    """The blocks of a decoder: the longest list of modules in it."""
    lists = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len, default=[])


def _ddp(model: nn.Module, options: ParallelOptions, device: torch.device, mesh: Any) -> Divided:
    on = [device] if device.type == "cuda" else None
    ddp = nn.parallel.DistributedDataParallel(model, device_ids=on, bucket_cap_mb=options.bucket_mib)
    buckets = Buckets()
    # DDP reads the annotations of a hook, which here are words, and refuses them; a lambda has none.
    ddp.register_comm_hook(buckets, lambda state, bucket: _stamped(state, bucket))
    return Divided(model, ddp, data_rank(mesh), buckets)


def _stamped(buckets: Buckets, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """torch's own default (divide, then all-reduce), with the time at which each bucket left and was back."""
    gradients, index = bucket.buffer(), bucket.index()
    gradients.div_(dist.get_world_size())
    buckets.storages[index] = gradients.nbytes
    buckets.sent_bytes += gradients.nbytes
    if bucket.is_last():
        buckets.last = mark(gradients.device)
    begin_ns, size = time.monotonic_ns(), gradients.nbytes

    def done(future: torch.futures.Future[Any]) -> torch.Tensor:  # off the main thread: it only appends
        buckets.flights.append(Flight(index, size, begin_ns, time.monotonic_ns()))
        result: torch.Tensor = future.value()[0]
        return result

    return dist.all_reduce(gradients, async_op=True).get_future().then(done)


def _shard(model: nn.Module, options: ParallelOptions, mesh: Any, precision: str) -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    axes = tuple(name for name in mesh.mesh_dim_names if name in DATA_AXES)
    among = mesh[axes if len(axes) > 1 else axes[0]]
    reduced = torch.bfloat16 if options.reduce_precision == "bf16" else torch.float32
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduced)
    policy = half if precision == "bf16" else MixedPrecisionPolicy()
    reshard = options.reshard == "yes"
    for layer in layers_of(model):
        fully_shard(layer, mesh=among, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=among, mp_policy=policy, reshard_after_forward=reshard)
