"""Facts of ranks that exchange buffers, as one of them sees them. Needs torch."""

from __future__ import annotations

import torch
import torch.distributed as dist

from twinlens.executors.torch.evidence.device_facts import device_facts
from twinlens.executors.torch.evidence.facts import framework_facts
from twinlens.executors.torch.parallel.place import rank_fields
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, declared, observed

_SYNCHRONISED = {
    False: "a barrier before each exchange",
    True: "a barrier before some exchanges that are queued back to back; events on the device's stream between them",
}


def exchange_facts(device: torch.device) -> Facts:
    """Backend, number of ranks, the format of elements, and torch itself."""
    world, backend = dist.get_world_size(), dist.get_backend()
    fields = framework_facts() | device_facts(device) | rank_fields(device)
    fields |= {
        "compiler.name": declared("none (eager)", "torch.distributed"),
        "training.strategy": observed(f"exchanges, {backend}", "torch.distributed.get_backend"),
        "training.world_size": observed(world, "torch.distributed.get_world_size"),
        "precision.name": declared("fp32", "the elements of buffers"),
        "protocol.synchronisation": observed(_SYNCHRONISED[device.type == "cuda"], "the loop"),
    }
    return Facts(ExecutorRecord(fields))
