"""Several servers of one recipe behind a balancer, as one command: the life cycle stays that of one server."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twinlens.executors.launch.gpus import Boards, masked
from twinlens.executors.launch.ready import free_port, page
from twinlens.executors.launch.recipe import Command, LaunchConfig, Recipe
from twinlens.system.document import json_of

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
