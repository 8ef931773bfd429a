"""Several servers of one recipe: the GPUs that each is given, and a balancer before them, as one command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.launch.ready import free_port, page
from twinlens.executors.launch.recipe import MASK, Command, LaunchConfig, Recipe, visible_gpus
from twinlens.spec.device import AskedDevice
from twinlens.system.document import json_of
from twinlens.system.nvml import Gpu, open_gpus

_BALANCER = Path(__file__).with_name("balancer.py")
_PAGE = "/twinlens/replicas"


def behind_balancer(
    recipe: Recipe, order: LaunchConfig, environment: Mapping[str, str], boards: Sequence[Boards]
) -> Command:
    """The command of a balancer on the order's port that starts a server for each of `boards`, on ports of their own.

    Each gets its share of the processors, and the GPUs that `boards` has for it.
    """
    count = len(boards)
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    started = []
    for place, port in enumerate(sorted(ports)):
        made = recipe.command(replace(order, port=port, cpus=_share(order, place, count)))
        started.append(
            {"port": port, "argv": made.argv, "env": {**made.environment, **environment, **masked(boards[place])}}
        )
    words = (sys.executable, "-I", "-S", str(_BALANCER), str(order.port), recipe.ready, json.dumps(started))
    own = recipe.command(order).environment  # the balancer has them too: whoever looks at the server looks at it first
    return Command(words, {**own, **environment})


def _share(order: LaunchConfig, place: int, count: int) -> tuple[int, ...]:
    usable = order.cpus or tuple(sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else ())
    return usable[place::count] if len(usable) >= count else order.cpus


def replicas_of(port: int) -> dict[str, Any]:
    """What the balancer counted: its processor seconds, and for each replica requests, lost ones and whether it lives;
    empty where it does not answer."""
    status, text = page(port, _PAGE)
    told: dict[str, Any] = json_of(text) if status == 200 else {}
    return told


# The GPUs that each server is given: distinct boards, by UUID where the driver's own list says which is which.

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
