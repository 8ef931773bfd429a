"""Evidence of what a loop of somebody's own really runs: formats in memory, kernels, bytes, settings of torch.

Needs torch. It is taken once, after an early step, from what is there: nothing is run for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from twinlens.executors.in_process.weights import regime_facts
from twinlens.executors.torch.device import fp32_settings
from twinlens.executors.torch.evidence.check import check_precision
from twinlens.executors.torch.evidence.facts import check_facts, device_facts, framework_facts
from twinlens.executors.torch.evidence.flop import ProfiledWork
from twinlens.executors.torch.evidence.memory import Resident, elements_of, resident_formats, state_memory
from twinlens.executors.torch.evidence.trace import Kernel, compute_formats, longest
from twinlens.executors.torch.evidence.work import trainable
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, PrecisionCheck, observed, unknown
from twinlens.spec.precision import AS_FOUND, PRECISIONS, Precision, precision
from twinlens.units import BYTES, COUNT, FLOP

_SOURCE = "the model and the optimizer that were watched"


@dataclass(frozen=True, slots=True)
class Seen:
    """A model and its optimizer after an early step, before gradients are let go of."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    device: torch.device
    passes: int
    is_compiled: bool


def device_of(model: nn.Module) -> torch.device:
    """The device of the first parameter; the processor for a model without any."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def boards_of(model: nn.Module) -> tuple[torch.device, ...]:
    """The GPUs that its parameters and buffers lie on, in torch's order; none for a model on the processor."""
    held = {tensor.device for tensors in (model.parameters(), model.buffers()) for tensor in tensors}
    return tuple(sorted((device for device in held if device.type == "cuda"), key=lambda device: device.index or 0))


def ranks_of_layers(model: nn.Module) -> int:
    """Ranks that compute each layer of a model together (tensor parallelism): the mesh of its divided parameters, less
    that over which FSDP2 shards them, which gathers a layer before each rank computes all of it."""
    divided = max((each.device_mesh.size() for each in model.parameters() if hasattr(each, "device_mesh")), default=1)
    sharded = max((_mesh_of_shards(each) for each in model.modules()), default=1)
    return max(1, divided // sharded)


def _mesh_of_shards(module: nn.Module) -> int:
    """Ranks that FSDP2 has for a module, which no public name says; 1 without it."""
    state = module._get_fsdp_state() if hasattr(module, "_get_fsdp_state") else None
    groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
    return max((int(each.mesh_info.mesh.size()) for each in groups if each is not None), default=1)


def board_facts(model: nn.Module) -> dict[str, Fact]:
    """Identity of the board that a model is on; of several, their number and all of their names."""
    boards = boards_of(model)
    if len(boards) < 2:
        return device_facts(boards[0]) if boards else {}
    each = [device_facts(board) for board in boards]
    products = {str(facts["accelerator.product"].value) for facts in each}
    uuids = [uuid for facts in each for uuid in facts["accelerator.uuid"].value]
    several = {
        "accelerator.count": observed(len(boards), "devices of the model's parameters"),
        "accelerator.uuid": observed(uuids, "devices of the model's parameters"),
    }
    if len(products) > 1:
        several["accelerator.product"] = unknown("the model's boards differ")
    return each[0] | several


def parameter_count(model: nn.Module) -> int:
    """Parameters of a model, tied ones once."""
    return sum(map(elements_of, model.parameters()))


def found_precision(seen: Seen, resident: Resident, kernels: Sequence[Kernel]) -> Precision:
    """The regime whose formats were found; AS_FOUND where they make none with a name, or no product was seen."""
    computed = next(iter(compute_formats(kernels)), None)
    if computed == "fp32" and seen.device.type == "cuda" and fp32_settings().get("cuda.matmul") == "tf32":
        computed = "tf32"
    master = max(resident.get("master", {"": 0}).items(), key=lambda pair: pair[1])[0]
    fits = (each for each in PRECISIONS.values() if "training" in each.lenses and each.compute == computed)
    return next((each for each in fits if each.training["master"] == master), AS_FOUND)


def torch_facts(seen: Seen, said: str | None, kernels: Sequence[Kernel], missing: str) -> tuple[Precision, Facts]:
    """The precision, and all that torch says. `said`: the precision that the user named, which is then checked."""
    resident = resident_formats(seen.model, seen.optimizer)
    regime = precision(said) if said else found_precision(seen, resident, kernels)
    checks: tuple[PrecisionCheck, ...] = ()
    if regime != AS_FOUND:
        asked = regime.classes("training") | {"compute": regime.compute}
        checks = check_precision(asked, resident, kernels, str(seen.device))
    fields = framework_facts() | board_facts(seen.model) | _loop(seen) | _compiler(seen)
    fields["kernels.selected"] = observed(longest(kernels), "torch.profiler") if kernels else unknown(missing)
    fields["model.parameters"] = observed(parameter_count(seen.model), _SOURCE)
    fields |= regime_facts(regime, "tl.watch(precision=…)" if said else "formats that were found")
    fields |= check_facts(checks)
    for name, formats in resident.items():
        if not checks and f"precision.{name}" in _CLASSES:
            fields[f"precision.{name}"] = observed(max(formats, key=lambda fmt: formats[fmt]), "resident tensors")
    count = Estimate(float(parameter_count(seen.model)), COUNT, "parameters of the model, tied ones once", "measured")
    work = {"resident_parameters": count, "trainable_parameters": trainable(seen.model)}
    memory = state_memory(seen.model, seen.optimizer)
    return regime, Facts(ExecutorRecord(fields), checks, work=work, memory=memory)


def work_of_pass(seen: Seen, work: ProfiledWork | None, memory: Estimates) -> Estimates:
    """Work of one step, from its profiled pass and the tensors that are resident; none where no pass was seen.

    Least bytes: the weights read by each forward and backward pass, gradients written (and read, from the second pass
    on), then gradients read and weights and optimizer state read and written.
    """
    if work is None or not work.flop:
        return {}
    passes = max(1, seen.passes)
    flop_by = f"products, convolutions and attention of one profiled pass, times {passes}"
    counted = {"counted_step_flop": Estimate(passes * work.flop, FLOP, flop_by, "measured")}
    known = {name: memory[name].value for name in _RESIDENT if name in memory}
    weights, gradients, states = (known.get(name) for name in _RESIDENT)
    if weights is None or gradients is None or states is None:
        lacking = " and ".join(name.removesuffix("_bytes") for name in _RESIDENT if known.get(name) is None)
        absent = Estimate.absent(BYTES, f"the memory of {lacking} is not known")
        return counted | {"resident_step_bytes": absent, "operand_step_bytes": absent}
    least = 2 * passes * weights + (2 * passes - 1) * gradients + gradients + 2 * weights + 2 * states
    most_by = f"operands and results of each operator of one profiled pass, times {passes}, and the optimizer"
    most = passes * work.most_bytes + 2 * (weights + states)
    return counted | {
        "resident_step_bytes": Estimate(least, BYTES, "each resident weight, gradient and state once", "derived"),
        "operand_step_bytes": Estimate(most, BYTES, most_by, "derived"),
    }


_RESIDENT = ("weights_bytes", "gradients_bytes", "optimizer_bytes")
_CLASSES = ("precision.weights", "precision.master", "precision.gradients", "precision.optimizer")


def _loop(seen: Seen) -> dict[str, Fact]:
    ranks = _ranks()
    return {
        "training.optimizer": observed(_optimizer_words(seen.optimizer), _SOURCE),
        "training.accumulation_steps": observed(max(1, seen.passes), "forward passes of one step"),
        "training.recompute": _recompute(seen.model),
        "training.loss_scaling": unknown("a scaler belongs to the loop, which does not show it"),
        "training.strategy": observed("one process", "torch.distributed")
        if ranks == 1
        else unknown("how the ranks share the work is not seen from the loop"),
        "training.world_size": observed(ranks, "torch.distributed"),
        "protocol.synchronisation": observed(
            "none needed: the processor is done when it returns"
            if seen.device.type == "cpu"
            else "none: phases from events on the stream",
            "executors/own_loop/step_log.py",
        ),
    }


def _ranks() -> int:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_world_size())
    return int(os.environ.get("WORLD_SIZE", "1"))


def _optimizer_words(optimizer: torch.optim.Optimizer) -> str:
    rates = sorted({float(group["lr"]) for group in optimizer.param_groups if "lr" in group})
    fused = ", fused" if any(group.get("fused") for group in optimizer.param_groups) else ""
    rate = f", learning rate {rates[0]:g}" if len(rates) == 1 else ""
    return f"{type(optimizer).__name__}{fused}{rate}"


def _recompute(model: nn.Module) -> Fact:
    names = ("is_activation_checkpointing", "is_gradient_checkpointing")  # the first from transformers 5.23 on
    is_on = next((getattr(model, name) for name in names if hasattr(type(model), name)), None)
    if is_on is None:
        return unknown("the model does not say whether it computes activations again")
    return observed("all layers" if is_on else "none", "the model's own word")


def _compiler(seen: Seen) -> dict[str, Fact]:
    return {
        "compiler.name": observed("torch.compile" if seen.is_compiled else "none (eager)", _SOURCE),
        "compiler.version": observed(str(torch.__version__), "torch.__version__"),
    }
