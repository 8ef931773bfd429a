"""Systems as they are sold: whole boards, racks or hosts of devices, and the power of the machines around them."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinlens.spec.device import Device
from twinlens.theory.figure import Figure, Input, assumed

RACK = 72
"""Devices of the largest thing that is sold as one."""
HOST = {"rack": 1.4, "board": 1.8, "card": 1.25, "desktop": 1.0, "host": 1.8}
"""Watts of a whole machine over those of its devices, where nobody quotes the machine: processors, memory, network,
fans and losses at their most. Quoted machines: 2.0 (DGX A100), 1.8 (DGX H100, H200, B200), 1.4 (GB200 NVL72)."""
CARDS = 8
CARD_HOST_W = 300.0
"""Of a server or workstation around up to eight cards, however small these are: processor, memory, board, disks."""


def bought(count: Any, unit: Any) -> Any:
    """Devices of the whole units that hold `count`."""
    return -(-np.asarray(count) // unit) * unit


def unit_word(device: Device) -> str:
    """How its smallest unit is called: "" for one that is sold alone."""
    if device.sold_in == 1:
        return ""
    return "host" if device.form == "cloud-only" else "rack" if device.sold_in >= RACK else "board"


def kind_of(device: Device) -> str:
    """The machine around it."""
    word = unit_word(device)
    return word or ("desktop" if device.form == "desktop-system" else "board" if _is_module(device) else "card")


def node_watts(device: Device, counts: Any) -> Any:
    """Most watts of the machines of each count of devices; infinite where nobody states those of the device."""
    counts = np.asarray(counts, dtype=float)
    if device.machine_w is not None:
        return device.machine_w / device.machine_devices * counts
    if device.tdp_w is None:
        return np.full(counts.shape, np.inf)
    around = CARD_HOST_W * bought(counts, CARDS) / CARDS if kind_of(device) == "card" else 0.0
    return device.tdp_w * HOST[kind_of(device)] * counts + around


def node_power(device: Device, count: int) -> Figure | None:
    """Most watts of the machines of `count` devices, host and network with them: quoted, else modelled and so said."""
    many = Input("devices", count, "devices")
    if device.machine_w is not None:
        whole = Input("machine-watts", device.machine_w, "w", device.machine_source or device.source)
        own = Input("machine-devices", device.machine_devices, "devices", device.machine_source or device.source)
        value = float(node_watts(device, count))
        return Figure("node-power", value, "w", "{0} / {1} × {2}", (whole, own, many), origin="quoted",
                      source=device.machine_source or "")  # fmt: skip
    if device.tdp_w is None:
        return None
    kind, value = kind_of(device), float(node_watts(device, count))
    factor = HOST[kind]
    each, host = Input("device-watts", device.tdp_w, "w", device.source), Input("host", factor, "1", "modelled")
    note = assumed("host-factor", f"{factor:g}", device=device.name)
    if kind != "card":
        return Figure("node-power", value, "w", "{0} × {1} × {2}", (each, host, many), assumptions=(note,))
    note = assumed("host-card", f"{factor:g}", device=device.name, watts=f"{CARD_HOST_W:g}", cards=CARDS)
    around = Input("host-watts", CARD_HOST_W, "w", "modelled")
    machines = Input("machines", int(bought(count, CARDS)) // CARDS, "machines", f"of up to {CARDS} cards")
    return Figure("node-power", value, "w", "{0} × {1} × {2} + {3} × {4}", (each, host, many, around, machines),
                  assumptions=(note,))  # fmt: skip


def _is_module(device: Device) -> bool:
    return device.form == "datacentre-module"
