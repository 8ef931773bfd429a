"""Facts of the board as torch reports them: used where there is no NVML, and in a MIG slice."""

from __future__ import annotations

from typing import Any

import torch

from twinlens.record.executor.record import Fact, observed

_SOURCE = "torch.cuda.get_device_properties"


def device_facts(device: torch.device) -> dict[str, Fact]:
    """Identity of a CUDA device; empty for the processor, which is its own accelerator."""
    return properties_facts(torch.cuda.get_device_properties(device)) if device.type == "cuda" else {}


def properties_facts(properties: Any) -> dict[str, Fact]:
    """Facts from the properties of a device, as far as this torch has them."""
    facts = {
        "accelerator.vendor": observed("AMD" if torch.version.hip else "NVIDIA", "torch.version"),
        "accelerator.product": observed(str(properties.name), _SOURCE),
        "accelerator.count": observed(1, "one device for each run"),
        "accelerator.architecture": observed(f"compute capability {properties.major}.{properties.minor}", _SOURCE),
        "accelerator.memory_bytes": observed(int(properties.total_memory), _SOURCE),
        "accelerator.uuid": observed([f"GPU-{properties.uuid}"], _SOURCE),
    }
    if " MIG " in f"{properties.name} ":
        facts["accelerator.partition"] = observed("MIG slice", f"{_SOURCE}, name")
    return facts
