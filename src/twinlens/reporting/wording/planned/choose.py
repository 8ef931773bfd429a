"""Sentences on a choice: why a device is not one, the branch, one system or two, links, cards, clusters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.amount import amount
from twinlens.reporting.wording.number import number
from twinlens.reporting.wording.planned.capacity import HARDLY
from twinlens.units import digits

RESOURCES = {
    "bandwidth": "bandwidth", "compute": "16-bit rate", "narrow": "narrow rate", "memory": "memory", "link": "link",
    "network": "network", "overhead": "overhead",
}  # fmt: skip
"""Rows of a datasheet that a prediction uses, in the order in which they are told."""
UNMOVED = (
    "in no speed: power (--power judges by it), price (10 % more is 10 % more per M), ECC; the generation of matrix "
    "engines is their rate, PCIe the link where there is no other"
)
"""Rows of a datasheet that change no predicted time."""
CHOSEN = {
    "rate-each": "tokens/s of one device", "tpot": "time per token", "ttft": "time to the first token", "wait": "wait",
    "prefill": "prefill", "interference": "prefills of others", "step": "decode step", "training-step": "training step",
    "experts": "experts", "attention": "attention", "collectives": "collectives", "overhead": "overhead",
    "products": "products", "elementwise": "elementwise", "tensor": "tensor parallel, exposed", "bubble": "bubble",
    "node-power": "power of the machines", "million-each": "hardware for a million tokens",
    "expert": "expert parallel, exposed", "data": "data parallel, exposed", "answer-tokens": "answers of the system",
}  # fmt: skip
"""Figures of a choice, as tables call them."""
_BRANCHES = {
    "one-card": "one card",
    "tensor-group": "several cards in one machine",
    "one-box": "one box for inference and training",
    "training-node": "4 to 8 H100, H200 or B200",
    "two-systems": "one system to serve and one to train",
    "cluster": "a cluster",
    "many-nodes": "many nodes",
    "other-node": "a machine of another kind",
}


def _share(value: Any) -> str:
    return f"{digits(100 * float(value), 2)} %"


def _systems(count: Any, device: Any) -> str:
    return f"{count} × {clean(str(device), 60)}"


def branch(finding: Finding) -> str:
    n = finding.numbers
    of = f" for {clean(str(n['model']), 60)}" if "model" in n else ""
    text = f"{_BRANCHES[finding.subject]}{of}: "
    system = _systems(n["devices"], n["device"]) if "device" in n else ""
    if finding.subject == "many-nodes":
        if n["feasible"]:
            return f"{text}no machine of up to 8 does it; {system} ({n['nodes']} nodes) is the smallest that does"
        return f"{text}overridden, {system} does it in one machine"
    held = f", {_share(n['memory_share'])} of its memory in {n['precision']}" if "memory_share" in n else ""
    if n["feasible"]:
        if finding.subject == "training-node":
            does = [_systems(each.numbers["devices"], each.numbers["device"]) for each in finding.because
                    if each.numbers["fits"]]  # fmt: skip
            failing = [each for each in finding.because if not each.numbers["fits"]]
            not_ = f", not {len(failing)} others ({branch_shown(failing[0])})" if failing else ""
            return f"{text}feasible on {', '.join(does)}{not_}"
        return f"{text}feasible{f', {system}{held}' if system else ''}"
    instead = _BRANCHES[str(n["instead"])]
    if finding.subject == "training-node":
        worst = "; ".join(branch_shown(each) for each in finding.because[-2:])
        return f"{text}overridden ({worst}); {system} is the smallest that holds it"
    if finding.subject == "two-systems":
        how = "at once" if any(each.subject == "shared-at-once" for each in finding.because) else "by turns"
        return f"{text}overridden, {instead} does both {how}"
    return f"{text}overridden by {instead}{f': {system}{held}' if system else ''}"


def branch_shown(finding: Finding) -> str:
    n = finding.numbers
    return f"{_systems(n['devices'], n['device'])}: {size(n['needed_bytes'])} of {size(n['usable_bytes'])} each"


def system(finding: Finding) -> str:
    n = finding.numbers
    hours = f"{n['serves_h']:.3g} h of serving and {n['trains_h']:.3g} h of training a day"
    own = f"{_systems(n['inference_devices'], n['inference'])} ({_share(n['inference_use'])} used) and " \
          f"{_systems(n['training_devices'], n['training'])} ({_share(n['training_use'])})"  # fmt: skip
    shared = _systems(n.get("shared_devices"), n.get("shared", ""))
    return {
        "shared-by-turns": lambda: (
            f"one, {shared}, by turns: {hours}, {_share(n['use'])} used; apart {_share(n['inference_use'])} and "
            f"{_share(n['training_use'])}"
        ),
        "shared-at-once": lambda: (
            f"one, {shared}: {digits(n['slow_h'])} h a day both run at half speed, {seconds(n['slower_tpot_s'])} per "
            f"token; apart {_share(n['inference_use'])} and {_share(n['training_use'])} used"
        ),
        "two-latency": lambda: (
            f"two: {own}; on {shared} both would run {digits(n['slow_h'])} h a day at half speed, "
            f"{seconds(n['slower_tpot_s'])} per token and not {seconds(n['target_s'])}"
        ),
        "two-memory": lambda: f"two: {own}; {hours} overlap, and {shared} cannot hold both",
        "two-hours": lambda: f"two: {own}; {hours}, and at half speed they do not fit into one day",
        "two-no-device": lambda: f"two: {own}; no device here does both",
        "two-and-more": lambda: (
            f"{_systems(n['inference_devices'], n['inference'])} to serve, and {math.ceil(n['times'])} systems of "
            f"{_systems(n['training_devices'], n['training'])} to train: {hours}"
        ),
    }[finding.subject]()


def link(finding: Finding) -> str:
    n = finding.numbers
    what = f"{n['lens']} on {_systems(n['devices'], n['device'])}"
    if finding.subject == "alone":
        return f"{what}: none needed, a copy is on one device"
    if finding.subject == "has-none":
        return f"{what}: there is none, and {_share(n['exposed_s'] / n['step_s'])} of a step is communication"
    word = "needed" if finding.subject == "needed" else "not needed"
    return (
        f"{what}: {word}, a step is {seconds(n['step_s'])} ({seconds(n['exposed_s'])} exposed) with {n['link']} and "
        f"{seconds(n['without_step_s'])} ({seconds(n['without_exposed_s'])}) on the bus"
    )


def card(finding: Finding) -> str:
    n = finding.numbers
    if finding.subject == "only-datacentre":
        return f"{n['lens']}: only data-centre devices do it"
    if finding.subject == "no-datacentre":
        return f"{n['lens']}: only {n['device']} and its like do it"
    ecc = ", without ECC" if n["ecc"] is not True else ""
    return (
        f"{n['lens']}: {_systems(n['devices'], n['device'])} gives {digits(n['times'], 2)} times the tokens/s of each "
        f"of {_systems(n['other_devices'], n['other'])}{ecc}{' (tied)' if n['tied'] else ''}"
    )


def cluster(finding: Finding) -> str:
    n = finding.numbers
    nodes = "1 node" if n["nodes"] == 1 else f"{n['nodes']} nodes"
    link = f" by {n['link']} ({amount(n['link_bytes_per_s'], 'bytes/s')} each way)" if n["link"] else ""
    link = link if n["devices"] > 1 else ""
    power = f", {amount(n['power_w'], 'w')}" if n["power_w"] else ""
    bubble = f", {_share(n['bubble_share'])} bubble of {n['pipeline']} stages" if n["pipeline"] > 1 else ""
    groups = f", {n['groups']} groups of attention share the experts ({HARDLY})" if n["groups"] > 1 else ""
    return (
        f"{finding.subject}: {nodes} of {n['per_node']} × {n['device']}{link}{power}, "
        f"{_share(n['exposed_share'])} exposed communication{bubble}{groups}"
    )


# Sentences on devices that are left out of a choice: the constraint that fails, and the nearest that is possible.


def seconds(value: Any) -> str:
    return amount(float(value), "s")


def size(value: Any) -> str:
    return amount(float(value), "bytes", plain=True)


def _power(n: Mapping[str, Any]) -> str:
    cap = f" of {amount(float(n['cap_w']), 'w')}" if n.get("cap_w") else ""
    return f"needs {amount(float(n['needed_w']), 'w')}{cap}"


_LESS = {
    "inference": "fewer --users, a shorter --context, a narrower --precision, or more --most-devices",
    "training": "--train lora or qlora, a shorter --length, or more --most-devices",
}


def _ratio(n: Mapping[str, Any]) -> str:
    """How many times slower the fastest is than the deadline asks, rounded up."""
    times = float(n.get("tokens_per_s", 1)) / float(n.get("best_tokens_per_s") or 1)
    return f"{math.ceil(times * 100) / 100:g}"


def _below(value: float) -> str:
    """A number with two digits that is not above the value."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.floor(value / step) * step:.6g}"


def rejected(finding: Finding) -> str:
    n = finding.numbers
    of = f"; {n['devices']} of them at best" if "devices" in n else ""
    made: dict[str, Callable[[], str]] = {
        "ecc": lambda: "has no ECC" if n["known"] else "is not known to have ECC",
        "datacentre": lambda: f"is no data-centre device ({clean(str(n['form']), 40)})",
        "on-premise": lambda: "is rented, and not sold",
        "processor": lambda: "is a processor; these rankings are of accelerators",
        "no-rate": lambda: "has no matrix rate in the catalogue that is certain",
        "no-training": lambda: "is a desktop system, for which no training is predicted",
        "power-unknown": lambda: "has no quoted power, and the site caps it",
        "power": lambda: _power(n),
        "memory": lambda: (
            f"does not fit on {n['most']} or fewer: {size(n['needed_bytes'])} of {size(n['usable_bytes'])} on each "
            f"of {n['devices']}"
        ),
        "together": lambda: f"needs {n['devices']} for all models, and {n['most']} are the most",
        "whole-nodes": lambda: f"fits on {n['devices']} only, which is no number of whole nodes",
        "tpot": lambda: f"takes {seconds(n['best_s'])} per token, and {seconds(n['target_s'])} are asked{of}",
        "ttft": lambda: f"takes {seconds(n['best_s'])} to the first token, and {seconds(n['target_s'])} are asked{of}",
        "tpot-and-ttft": lambda: "keeps each latency target alone, and not both",
        "deadline": lambda: (
            f"trains {digits(n['best_tokens_per_s'])} tokens/s, and {digits(n['tokens_per_s'])} are asked{of}"
        ),
    }
    model = f"for {clean(str(n['model']), 60)} " if "model" in n else ""
    return f"{model}{made[finding.subject]()}"


def impossible(finding: Finding) -> str:
    n = dict(finding.numbers)
    lens = number(finding, "lens")
    if "device" not in n:
        made = rejected(Finding("plan-rejected", "notes", finding.subject, {"known": True, "form": "other", **n}))
        return f"no device here does this {lens}: each {made}; ask for less of the site, or add devices to --among"
    near = f"{clean(str(n['device']), 60)} in {clean(str(n['precision']), 40)}"
    change = {
        "memory": _LESS[lens],
        "whole-nodes": _LESS[lens],
        "tpot": f"--speed {_below(1 / float(n.get('best_s', 1)))}",
        "ttft": f"--ttft {1000 * float(n.get('best_s', 1)) + 1:.0f}ms",
        "deadline": f"--within {_ratio(n)} times as long, or more --most-devices",
        "together": f"--most-devices {n.get('devices')}",
        "power": f"--power {math.ceil(float(n.get('needed_w', 0)))}W",
    }[finding.subject]
    why = rejected(Finding("plan-rejected", "notes", finding.subject, n))
    return f"no device does this {lens}; the nearest is {near}, which {why}; possible with {change}"
