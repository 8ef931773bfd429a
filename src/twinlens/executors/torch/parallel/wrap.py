"""A model divided over the ranks of a mesh, through torch's public interfaces."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from twinlens.errors import BadInput
from twinlens.executors.torch.device import mark
from twinlens.executors.torch.parallel.options import ParallelOptions
from twinlens.executors.torch.parallel.pipeline import Fill, Pipeline, pipeline_of

if TYPE_CHECKING:
    from twinlens.executors.torch.deepspeed.engine import ZeroEngine


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
    engine: ZeroEngine | None = None


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


DATA_AXES = ("replicate", "shard")


def mesh_of(options: ParallelOptions, device_type: str) -> Any:
    """torch's mesh with the axes of the options; ranks that split a layer are neighbours."""
    from torch.distributed.device_mesh import init_device_mesh

    axes = options.mesh
    return init_device_mesh(device_type, tuple(axes.values()), mesh_dim_names=tuple(axes))


def data_rank(mesh: Any) -> int:
    """This rank's place among those that see different data; ranks that split a layer share one."""
    place = 0
    for axis in DATA_AXES:
        if axis in (mesh.mesh_dim_names or ()):
            place = place * int(mesh[axis].size()) + int(mesh[axis].get_local_rank())
    return place


# Megatron's plan on torch's DTensor: columns of the first products, rows of the second; table and head by vocabulary.

_COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
_ROWS = ("o_proj", "down_proj")


def split_layers(model: nn.Module, mesh: Any) -> None:
    """Split every layer over the mesh, in place. Raises BadInput (TL202) for a model without layers of these names."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan: dict[str, Any] = {}
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if isinstance(module, nn.Linear) and last in _COLUMNS:
            plan[name] = ColwiseParallel()
        elif isinstance(module, nn.Linear) and last in _ROWS:
            plan[name] = RowwiseParallel()
    if not plan:
        raise BadInput(
            'this model has no layers named as tensor parallelism needs them (q_proj … down_proj); take "ddp" or '
            '"fsdp2" as executor.options.parallel, without executor.options.tensor',
            code="TL202",
        )
    is_tied = getattr(model.config, "tie_word_embeddings", False)
    if not is_tied:
        plan["model.embed_tokens"] = RowwiseParallel(input_layouts=Replicate())
        plan["lm_head"] = ColwiseParallel(output_layouts=Replicate())
    parallelize_module(model, mesh, plan)


def keep_own_gradients(model: nn.Module) -> None:
    """Cut each gradient as its weight is cut, where torch leaves it whole on every rank: that of the token table."""
    for parameter in model.parameters():
        if hasattr(parameter, "placements"):
            parameter.register_post_accumulate_grad_hook(_keep_own)


def _keep_own(parameter: torch.Tensor) -> None:
    gradient: Any = parameter.grad
    placements = parameter.placements
    if getattr(gradient, "placements", placements) != placements:
        parameter.grad = gradient.redistribute(placements=placements)
