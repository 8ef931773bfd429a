"""A model divided over ranks: DDP, FSDP2 or tensor parallel, through torch's public interfaces."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from twinlens.errors import BadInput
from twinlens.executors.torch.marks import mark
from twinlens.executors.torch.parallel.options import ParallelOptions


@dataclass(slots=True)
class Buckets:
    """The all-reduces of one backward pass under DDP, in ns of the monotonic clock; on a GPU `done` is when the host
    heard of it. `last`: the mark at which the last bucket left, after which a rank only waits."""

    flights: list[tuple[int, int, int]] = field(default_factory=list)  # bytes, begin, end
    storages: dict[int, int] = field(default_factory=dict)
    last: Any = None

    def forget(self) -> None:
        self.flights.clear()
        self.last = None


@dataclass(frozen=True, slots=True)
class Divided:
    """`forward` is what is called, `model` what holds the parameters. `buckets`: of DDP alone."""

    model: nn.Module
    forward: nn.Module
    buckets: Buckets | None = None


def divide(model: nn.Module, options: ParallelOptions, device: torch.device, precision: str) -> Divided:
    """Raises BadInput (TL202) for a model that torch cannot divide so."""
    if options.parallel == "ddp":
        return _ddp(model, options, device)
    if options.parallel == "fsdp2":
        return _fsdp2(model, options, device, precision)
    return _tensor_parallel(model, device)


def set_sync(divided: Divided, is_last: bool) -> None:
    """Whether gradients are exchanged in the next backward pass: only after the last microbatch of a step."""
    if divided.buckets is not None:
        divided.forward.require_backward_grad_sync = is_last
    elif hasattr(divided.model, "set_requires_gradient_sync"):
        divided.model.set_requires_gradient_sync(is_last)


def layers_of(model: nn.Module) -> list[nn.Module]:
    """The blocks of a decoder: the longest list of modules in it."""
    lists = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len, default=[])


def _ddp(model: nn.Module, options: ParallelOptions, device: torch.device) -> Divided:
    on = [device] if device.type == "cuda" else None
    ddp = nn.parallel.DistributedDataParallel(model, device_ids=on, bucket_cap_mb=options.bucket_mib)
    buckets = Buckets()
    # DDP reads the annotations of a hook, which here are words, and refuses them; a lambda has none.
    ddp.register_comm_hook(buckets, lambda state, bucket: _stamped(state, bucket))
    return Divided(model, ddp, buckets)


def _stamped(buckets: Buckets, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """torch's own default (divide, then all-reduce), with the time at which each bucket left and was back."""
    gradients = bucket.buffer()
    gradients.div_(dist.get_world_size())
    buckets.storages[bucket.index()] = gradients.nbytes
    if bucket.is_last():
        buckets.last = mark(gradients.device)
    begin_ns, size = time.monotonic_ns(), gradients.nbytes

    def done(future: torch.futures.Future[Any]) -> torch.Tensor:  # off the main thread: it only appends
        buckets.flights.append((size, begin_ns, time.monotonic_ns()))
        result: torch.Tensor = future.value()[0]
        return result

    return dist.all_reduce(gradients, async_op=True).get_future().then(done)


def _fsdp2(model: nn.Module, options: ParallelOptions, device: torch.device, precision: str) -> Divided:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("shard",))
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    policy = half if precision == "bf16" else MixedPrecisionPolicy()
    reshard = options.reshard == "yes"
    for layer in layers_of(model):
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    return Divided(model, model)


_COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
_ROWS = ("o_proj", "down_proj")


def _tensor_parallel(model: nn.Module, device: torch.device) -> Divided:
    """Megatron's plan: columns of the first products, rows of the second; table and head by vocabulary."""
    from torch.distributed.device_mesh import init_device_mesh
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
            '"fsdp2" as executor.options.parallel',
            code="TL202",
        )
    if not getattr(model.config, "tie_word_embeddings", False):
        plan["model.embed_tokens"] = RowwiseParallel(input_layouts=Replicate())
        plan["lm_head"] = ColwiseParallel(output_layouts=Replicate())
    mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("tensor",))
    parallelize_module(model, mesh, plan)
    return Divided(model, model)
