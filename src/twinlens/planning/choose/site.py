"""Constraints of a site on a device, before any speed: ECC, a data-centre part, one's own floor, power."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twinlens.planning.choose.smallest import whole
from twinlens.planning.choose.wanted import Site
from twinlens.planning.prediction.device_rates import is_rated
from twinlens.planning.sold import bought, node_watts
from twinlens.record.finding import Finding
from twinlens.spec.device import Device


def rejection(subject: str, **numbers: object) -> Finding:
    """The constraint that fails, with the numbers that show it."""
    return Finding("plan-rejected", "notes", subject, numbers)


def forbidden(device: Device, site: Site, *, trains: bool) -> Finding | None:
    """Why the site, or the kind of work, forbids a device; None where neither does."""
    if "ecc" in site.needs and device.ecc is not True:
        return rejection("ecc", known=device.ecc is not None)
    if "datacentre" in site.needs and not device.is_datacentre:
        return rejection("datacentre", form=device.form or "unknown")
    if "on-premise" in site.needs and device.form == "cloud-only":
        return rejection("on-premise")
    if device.form == "processor":
        return rejection("processor")
    if not is_rated(device):
        return rejection("no-rate")
    if trains and device.form == "desktop-system":
        return rejection("no-training", form="desktop-system")
    if site.power_w is None:
        return None
    least = float(node_watts(device, device.sold_in))
    if not math.isfinite(least):
        return rejection("power-unknown", cap_w=site.power_w)
    if least > site.power_w:
        return rejection("power", needed_w=least, cap_w=site.power_w, devices=device.sold_in)
    return None


def allowed(devices: tuple[Device, ...], counts: Any, site: Site) -> Any:
    """Pairs × ways: whether the machines of that many of each stay below the power that the site has."""
    if site.power_w is None:
        return np.ones((len(devices), len(counts)), dtype=bool)
    return np.array([node_watts(each, bought(counts, each.sold_in)) <= site.power_w for each in devices])


def too_little(needed: Any, counts: Any, room: float, device: Device, site: Site, allowed_ways: Any) -> Finding | None:
    """Why no layout of a pair fits: the least that a device would have to hold, or the power; None where one does."""
    fits, usual = needed <= room, whole(counts)
    if (fits & usual & allowed_ways).any():
        return None
    if (fits & usual).any():
        fewest = int(bought(counts[fits & usual].min(), device.sold_in))
        watts = float(node_watts(device, fewest))
        return rejection("power", needed_w=watts, cap_w=site.power_w, devices=fewest)
    if fits.any():
        return rejection("whole-nodes", devices=int(counts[fits].min()))
    best = int(np.argmin(needed))
    return rejection(
        "memory", needed_bytes=float(needed[best]), usable_bytes=room, devices=int(counts[best]), most=site.most_devices
    )
