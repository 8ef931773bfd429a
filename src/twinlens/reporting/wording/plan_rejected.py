"""Sentences on devices that are left out of a choice: the constraint that fails, and the nearest that is possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.amount import amount
from twinlens.reporting.wording.number import number
from twinlens.units import digits


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
