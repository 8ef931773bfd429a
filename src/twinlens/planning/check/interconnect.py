"""The link that a plan needs against what the box has: bytes each device sends, and the time that its work leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twinlens.planning.check.deadline import Mfu
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.training import Training
from twinlens.record.finding import Finding
from twinlens.spec.device import Device, Link
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.figure import Figure, Input, absent, assumed, product
from twinlens.theory.parameter import parameters

SHARE = 0.2
"""Of the whole time that communication may take before the link is said to be too slow, if none of it is hidden."""


@dataclass(frozen=True, slots=True)
class Joined:
    """`needed` and `has` in bytes/s of a device, one way; `taken` is the share of the whole time on the box's link."""

    link: str | None
    needed: Figure
    has: Figure
    taken: Figure

    @property
    def enough(self) -> bool | None:
        """None where one of the two is not known."""
        if self.needed.value is None or self.has.value is None:
            return None
        return float(self.has.value) >= float(self.needed.value)


def joined(plan: Serving | Training, device: Device, devices: int, link: Link | None, mfu: Mfu) -> Joined | None:
    """None on one device, which needs no link."""
    if devices == 1:
        return None
    peak = device.rate("bf16") or device.rate("fp16")
    model = plan.subject.name
    if plan.subject.shape is None or peak is None:
        unknown = _unknown(model, "layers") if plan.subject.shape is None else _unknown(device.name, "rate")
        nothing = absent("link-needed", "bytes/s", unknown)
        return Joined(link.name if link else None, nothing, _has(device, link), absent("link-share", "share", unknown))
    sent, work = _training(plan, devices, peak, mfu) if isinstance(plan, Training) else _prefill(
        plan, devices, peak, mfu
    )  # fmt: skip
    share = Input("link-share", SHARE, "1", "at most, and none of it hidden")
    least = sent.number * (1 - SHARE) / (SHARE * work.number)
    needed = Figure("link-needed", least, "bytes/s", "{0} × (1 − {1}) / ({1} × {2})",
                    (sent, share, work), law="all-reduce-share")  # fmt: skip
    has = _has(device, link)
    if has.value is None:
        return Joined(None, needed, has, absent("link-share", "share", _unknown(device.name, "link")))
    on_link = sent.number / has.number
    taken = Figure("link-share", on_link / (on_link + work.number), "share", "{0} / {1} / ({0} / {1} + {2})",
                   (sent, has, work), law="all-reduce-share")  # fmt: skip
    return Joined(link.name if link else None, needed, has, taken)


def _has(device: Device, link: Link | None) -> Figure:
    if link is None:
        return absent("link-has", "bytes/s", _unknown(device.name, "link"))
    notes = (assumed("link-unverified", link.name),) if link.unverified else ()
    return Figure(
        "link-has", link.one_way_bytes_per_s, "bytes/s", origin="quoted", source=link.source, assumptions=notes
    )


def _prefill(plan: Serving, devices: int, peak: float, mfu: Mfu) -> tuple[Figure, Figure]:
    """Tensor parallel: two all-reduces of 16-bit activations in each layer, for each token of a prompt.

    Groups that share experts send each token to the devices of its experts, and get it back.
    """
    shape = plan.subject.shape
    if shape is None:
        raise ValueError("without layers nothing is known of what devices send each other")
    tensor = devices // plan.groups
    ring = 2 * (tensor - 1) / tensor
    reduced = Figure("sent", 2 * shape.layers * shape.hidden * 2 * ring, "bytes", "2 × {0} × {1} × 2 B × {2}", (
        Input("layers", shape.layers, "layers"), Input("hidden", shape.hidden, "wide"),
        Input("ring", ring, "1", "2 (n − 1) / n, a ring"),
    ))  # fmt: skip
    sent = reduced if plan.groups == 1 else _exchanged(plan, shape, devices, reduced)
    flop = 2.0 * parameters(shape).matmul / devices
    work = Figure("work", flop / (peak * mfu.taken), "s", "{0} / ({1} × {2})", (
        Input("flop-each", flop, "FLOP", "2 × weights that a token passes / devices"), Input("peak", peak, "flop/s"),
        Input("mfu", mfu.taken, "share", mfu.source),
    ), law="prefill-time")  # fmt: skip
    return sent, work


def _exchanged(plan: Serving, shape: DecoderShape, devices: int, reduced: Figure) -> Figure:
    """Bytes of a device for each token of all groups: to and from its experts, and all-reduces inside its group."""
    chosen = shape.experts.per_token if shape.experts else 0
    away = 1 - 1 / plan.groups
    experts = 2 * shape.expert_layers * chosen * shape.hidden * 2 * away / devices
    own = reduced.number / plan.groups
    return Figure("sent", experts + own, "bytes", "2 × {0} × {1} × {2} × 2 B × {3} / {4} + {5} / {6}", (
        Input("expert-layers", shape.expert_layers, "layers"), Input("chosen", chosen, "experts of a token"),
        Input("hidden", shape.hidden, "wide"), Input("away", away, "1", "on devices of other groups"),
        Input("devices", devices, "devices"), reduced, Input("groups", plan.groups, "groups"),
    ))  # fmt: skip


def _training(plan: Training, devices: int, peak: float, mfu: Mfu) -> tuple[Figure, Figure]:
    """FSDP: weights gathered twice and gradients scattered once a step, in 16 bits; adapters: their gradients alone."""
    shape = plan.subject.shape
    if shape is None:
        raise ValueError("without layers nothing is known of what devices send each other")
    ring, times = (devices - 1) / devices, 3 if plan.method == "full" else 2
    sent = Figure("sent", times * 2 * plan.subject.params * ring, "bytes", "{0} × 2 B × {1} × {2}", (
        Input("times", times, "1", "gathered for forward and backward" + (", scattered" if times == 3 else "")),
        plan.subject.params_input(), Input("ring", ring, "1", "(n − 1) / n, a ring"),
    ))  # fmt: skip
    tokens = plan.batch * plan.context
    flop = (6.0 if plan.method == "full" else 4.0) * parameters(shape).matmul * tokens
    work = Figure("work", flop / (peak * mfu.taken), "s", "{0} / ({1} × {2})", (
        Input("flop-step", flop, "FLOP", f"{tokens:,} tokens on each device"), Input("peak", peak, "flop/s"),
        Input("mfu", mfu.taken, "share", mfu.source),
    ), law="prefill-time")  # fmt: skip
    return sent, work


def _unknown(model: str, needs: str) -> Finding:
    return Finding("plan-unknown", "warns", "link-needed", {"model": model, "needs": needs})


# Power at the wall, heat, airflow and current of the devices of a plan, from the watts of their datasheets.

BTU_PER_WH = 3.412142
"""International table BTU in a watt hour: 3600 / 1055.056."""
AIR_J_PER_M3_K = 1.204 * 1006.0
"""Density and specific heat of dry air at 20 °C and 101.3 kPa (1.204 kg/m³, 1,006 J/kg K)."""
CONTINUOUS_SHARE = 0.8
"""Of a circuit's rating that a load of three hours or more may draw (NEC 210.20(A): 125 % of it)."""


@dataclass(frozen=True, slots=True)
class Supply:
    """`host_w`: of all machines around the devices, None: not said. `efficiency` of power supplies, and power factor.

    `rise_k`: of the air from inlet to outlet. `phases` 1 or 3, `volts` between lines for 3.
    """

    volts: float = 230.0
    phases: int = 1
    rise_k: float = 15.0
    host_w: float | None = None
    efficiency: float = 0.94
    power_factor: float = 0.95


def power_figures(device: Device, devices: int, supply: Supply, hours: float | None = None) -> tuple[Figure, ...]:
    """Watts of the load and at the wall, BTU/h, m³/h, amperes and the circuit for them; kWh where hours are known."""
    if device.tdp_w is None:
        unknown = Finding("plan-unknown", "warns", "wall", {"model": device.name, "needs": "watts"})
        return (absent("wall", "w", unknown),)
    wall = _wall(_load(device.tdp_w, device.source, devices, supply), supply)
    heat = product("heat", "BTU/h", (wall, Input("btu", BTU_PER_WH, "BTU/h per W", "1055.056 J")))
    air = Figure(
        "air", 3600 * wall.number / (AIR_J_PER_M3_K * supply.rise_k), "m³/h", "{0} × 3600 s / ({1} × {2})",
        (wall, Input("air-heat", AIR_J_PER_M3_K, "J/m³K", "air at 20 °C at sea level"),
         Input("rise", supply.rise_k, "K")),
    )  # fmt: skip
    amps = _amps(wall, supply)
    share = Input("continuous", CONTINUOUS_SHARE, "1", "NEC 210.20(A)")
    circuit = Figure("circuit", amps.number / CONTINUOUS_SHARE, "A", "{0} / {1}", (amps, share))
    known = (wall, heat, air, amps, circuit)
    if hours is None:
        return known
    ran = Input("hours", hours, "h")
    used = Figure("energy", wall.number * hours / 1000, "kWh", "{0} × {1} / 1000", (wall, ran), law="energy")
    return (*known, used)


def _load(watts: float, source: str, devices: int, supply: Supply) -> Figure:
    each = Input("device-watts", watts, "w", source)
    many = Input("devices", devices, "devices")
    if supply.host_w is None:
        note = assumed("host-watts", 0)
        return Figure(
            "load", devices * watts, "w", "{0} × {1}", (many, each), origin="quoted",
            assumptions=(note,),
        )  # fmt: skip
    host = Input("host-watts", supply.host_w, "w")
    total = devices * watts + supply.host_w
    return Figure("load", total, "w", "{0} × {1} + {2}", (many, each, host), origin="quoted")


def _wall(load: Figure, supply: Supply) -> Figure:
    share = Input("efficiency", supply.efficiency, "1", "of the power supplies")
    return Figure("wall", load.number / supply.efficiency, "w", "{0} / {1}", (load, share))


def _amps(wall: Figure, supply: Supply) -> Figure:
    volts, factor = Input("volts", supply.volts, "V"), Input("power-factor", supply.power_factor, "1", "assumed")
    value = wall.number / (supply.volts * supply.power_factor)
    if supply.phases == 1:
        return Figure("amps", value, "A", "{0} / ({1} × {2})", (wall, volts, factor))
    return Figure("amps", value / math.sqrt(3), "A", "{0} / (√3 × {1} × {2})", (wall, volts, factor))
