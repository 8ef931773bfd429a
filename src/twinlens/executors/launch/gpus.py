"""The GPUs that each server is given: distinct boards, by UUID where the driver's own list says which is which."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

from twinlens.errors import BadInput
from twinlens.executors.launch.recipe import MASK, visible_gpus
from twinlens.spec.device import AskedDevice
from twinlens.system.nvml import Gpu, open_gpus

Boards = tuple[str, ...]
"""Entries of CUDA's mask."""


def gpus_of_each(device: AskedDevice, servers: int, each: int, environment: Mapping[str, str]) -> tuple[Boards, ...]:
    """The entries of CUDA's mask for each of `servers`, of which each takes `each` boards; () leaves a server unmasked.

    A server is given no more than it takes: one that sees every board of a machine spreads itself over them, and is
    charged for them. With a number in `device` all servers share that board. Raises BadInput (TL208) for more boards
    than there are.
    """
    if device.kind == "cpu":
        return ((),) * servers
    have = visible_entries(environment)
    if have is None:
        if not device.names_gpu:
            return ((),) * servers
        have = [str(number) for number in range(max(servers * each, (device.index or 0) + 1))]
    if device.index is not None:
        if device.index >= len(have):
            raise BadInput(f"executor.device is '{device}', and {len(have)} GPUs can be seen", code="TL208")
        if each > 1:
            sentence = (
                f"executor.device is '{device}', one GPU, and a server takes {each}; say executor.device = \"cuda\""
            )
            raise BadInput(sentence, code="TL208")
        return ((have[device.index],),) * servers
    if not have and not device.names_gpu:
        return ((),) * servers
    if servers * each > len(have):
        counted = (
            f"{servers} servers of {each} GPU{'s' * (each > 1)} each" if servers > 1 else f"a server of {each} GPUs"
        )
        shared = ', or to "cuda:0", which all of them share' if servers > 1 and each == 1 else ""
        raise BadInput(
            f"{counted} take {servers * each}, and {len(have)} can be seen; take fewer, or set executor.device to "
            f'"cpu"{shared}',
            code="TL208",
        )
    return tuple(tuple(have[place * each : (place + 1) * each]) for place in range(servers))


def masked(*boards: Boards) -> dict[str, str]:
    """The variable that shows a server these boards and no others; empty without any."""
    entries = dict.fromkeys(entry for each in boards for entry in each)
    return {MASK: ",".join(entries)} if entries else {}


def gpus_taken(words: Sequence[str], flags: Sequence[str]) -> int:
    """How many GPUs one server takes, by the degrees of parallelism on its command line; 1 without any."""
    spoken = [word for joined in words for word in joined.split("=", 1)]
    return prod(
        int(value) for name, value in pairwise(spoken) if name in flags and value.isdecimal() and int(value) > 0
    )


def visible_entries(environment: Mapping[str, str] = os.environ) -> list[str] | None:
    """The GPUs that a process of this environment sees, in CUDA's order, by UUID where that is sure.

    Else as the mask calls them, or by CUDA's numbers. None where there is no mask and NVML sees none.
    """
    gpus, _ = open_gpus()
    known = uuids_in_cudas_order(gpus, environment)
    if MASK in environment:
        masked = visible_gpus(environment)
        return [known[int(entry)] if entry.isdigit() and int(entry) < len(known) else entry for entry in masked]
    return known or [str(number) for number in range(len(gpus))] or None


def uuids_in_cudas_order(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[str]:
    """UUIDs by CUDA's numbers; empty where they are not known.

    CUDA numbers boards that differ by speed, NVML by bus address; a board cut into MIG slices has a device for each.
    """
    same = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({gpu.name for gpu in gpus}) == 1
    return [gpu.uuid for gpu in gpus] if same and not any(gpu.is_cut for gpu in gpus) else []
