"""The five branches of the source's decision tree, taken from the workload split, and whether they are feasible.

1 one card for a person or a small team; 2 several in one machine for many users; 3 one box for inference and adapters;
4 four to eight H100, H200 or B200 for full fine-tuning; 5 many nodes for training from scratch
(inference-vs-training-hardware, June 2026). Much of both, with full training, is none of them: two systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from twinlens.planning.choose.candidate import Ranking
from twinlens.planning.choose.training_choice import needed_bytes, training_ways
from twinlens.planning.choose.wanted import ServingWanted, TrainingWanted, Wanted
from twinlens.planning.fit.answer import usable
from twinlens.planning.fit.training_answer import MEMORY_SHARE
from twinlens.planning.need import CHINCHILLA
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue

MOSTLY = 0.8
TEAM = 10
"""Users of a small team at most; the source names no number."""
NODE = 8
NAMED = ("h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb")


def branch_finding(wanted: Wanted, serving: Ranking | None, training: Ranking | None, catalogue: Catalogue,
                   system: Finding | None) -> Finding:  # fmt: skip
    """The branch that the split takes, whether arithmetic allows it, and the one that it allows instead."""
    if wanted.serving is not None and serving is not None and 1 - wanted.training_share >= MOSTLY:
        return _inference(wanted.serving, serving)
    if wanted.training is None or training is None:
        raise ValueError("work that is mostly training has a ranking of training")
    if wanted.training.method != "full" and serving is not None:
        return _both(serving, training, system)
    if wanted.training_share >= MOSTLY or serving is None:
        return _training(wanted.training, training, catalogue)
    shares = system is not None and system.subject.startswith("shared")
    because = (system,) if system else ()
    instead = "one-box" if shares else None
    return Finding("plan-branch", "notes", "two-systems", {"number": None, "feasible": not shares, "instead": instead},
                   because=because)  # fmt: skip


def _inference(wanted: ServingWanted, serving: Ranking) -> Finding:
    """One card for a small team, a group for more users; overridden where one card keeps the targets of more users, or
    not of so few. Of several models that of the largest, on its own devices.
    """
    params = [each.subject.params for each in wanted.models]
    place = params.index(max(params))
    systems = [each.parts[place] if each.parts else each for each in serving.candidates]
    users = sum(each.users for each in wanted.models)
    takes = "one-card" if users <= TEAM else "tensor-group"
    alone = next((each for each in systems if each.devices == 1), None)
    group = next((each for each in systems if 1 < each.devices <= NODE), None)
    proof = alone if takes == "one-card" else group
    numbers: dict[str, object] = {"number": 1 if takes == "one-card" else 2, "users": users}
    instead = None
    if takes == "one-card" and alone is None:
        instead, proof = ("tensor-group" if group else "cluster"), group or systems[0]
    elif takes == "tensor-group" and alone is not None:
        instead, proof = "one-card", alone
    elif proof is None:
        instead, proof = "cluster", systems[0]
    numbers |= {"feasible": instead is None, "instead": instead, "device": proof.device, "devices": proof.devices,
                "precision": proof.precision, "memory_share": proof.memory_share}  # fmt: skip
    numbers |= {"model": proof.model} if proof.model else {}
    return Finding("plan-branch", "notes", takes, numbers)


def _both(serving: Ranking, training: Ranking, system: Finding | None) -> Finding:
    """One box of up to eight devices that serves and trains adapters, if its hours, memory and speed allow both."""
    both = [(each, other) for each in serving.candidates if (other := training.of(each.device))]
    one = min(both, key=lambda pair: max(pair[0].devices, pair[1].devices), default=None)
    numbers: dict[str, object] = {"number": 3}
    if one is None or max(one[0].devices, one[1].devices) > NODE:
        return Finding("plan-branch", "notes", "one-box", numbers | {"feasible": False, "instead": "two-systems"})
    if system is not None and not system.subject.startswith("shared"):
        numbers |= {"feasible": False, "instead": "two-systems"}
        return Finding("plan-branch", "notes", "one-box", numbers, because=(system,))
    devices = max(one[0].devices, one[1].devices)
    numbers |= {"feasible": True, "instead": None, "device": one[0].device, "devices": devices}
    return Finding("plan-branch", "notes", "one-box", numbers)


def _training(wanted: TrainingWanted, training: Ranking, catalogue: Catalogue) -> Finding:
    """Many nodes for training from scratch, and for what no machine of up to eight does by its deadline; else four or
    eight H100, H200 or B200, each computed, or the smallest machine that holds it.
    """
    shown = tuple(_named(wanted, catalogue, NAMED))
    small = min(training.candidates, key=lambda each: each.devices)
    is_scratch = wanted.tokens is not None and wanted.tokens >= CHINCHILLA * wanted.subject.params
    numbers = {"device": small.device, "devices": small.devices, "nodes": -(-small.devices // NODE),
               "tokens": wanted.tokens}  # fmt: skip
    if small.devices > NODE:
        numbers |= {"number": 5, "feasible": True, "instead": None}
        return Finding("plan-branch", "notes", "many-nodes", numbers, because=shown)
    if is_scratch:
        numbers |= {"number": 5, "feasible": False, "instead": "training-node"}
        return Finding("plan-branch", "notes", "many-nodes", numbers, because=shown)
    feasible = any(each.numbers["fits"] for each in shown)
    numbers |= {"number": 4, "feasible": feasible, "instead": None if feasible else "other-node"}
    return Finding("plan-branch", "notes", "training-node", numbers, because=shown)


def _named(wanted: TrainingWanted, catalogue: Catalogue, names: Sequence[str]) -> Iterator[Finding]:
    ways = training_ways(wanted, NODE)
    needed = needed_bytes(wanted, ways)
    for name in names:
        device = next((each for each in catalogue.devices if each.name == name), None)
        for count in (4, 8) if device else ():
            rows = ways.devices == count
            if device is None or not rows.any():
                continue
            least, room = float(np.min(needed[rows])), usable(device, MEMORY_SHARE).number
            numbers = {"device": name, "devices": count, "needed_bytes": least, "usable_bytes": room}
            yield Finding("plan-branch-shown", "notes", name, numbers | {"fits": least <= room})
