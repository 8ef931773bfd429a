"""Several models on devices of one kind, each on devices of its own: rankings of each alone become one of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from twinlens.planning.choose.candidate import Candidate, Ranking, Reach, Rejected, limit_of, ranked
from twinlens.planning.choose.nearness import missed
from twinlens.planning.choose.offer import Paid, offer_of
from twinlens.planning.choose.site import rejection
from twinlens.planning.choose.wanted import Site
from twinlens.planning.figure import Figure, Input
from twinlens.planning.sold import bought
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Sold:
    """Devices by name, how they are paid, and how far apart two systems must be."""

    devices: Mapping[str, Device]
    paid: Paid
    catalogue: Catalogue
    reach: Reach


def together(
    names: Sequence[str], formats: Sequence[Sequence[str]], alone: Sequence[Ranking], site: Site, sold: Sold
) -> Ranking:
    """Of each device and precision the sum of the smallest systems, in whole boards or racks; left out where one model
    has none, or all are above the power or the number of devices that the site allows. The ranking of one model is
    returned as it is. `formats`: of each model, in the order that was asked for: the first of one stands beside the
    first of the others, and the last of a shorter list beside the rest.
    """
    if len(alone) == 1:
        return alone[0]
    first = alone[0]
    barred = [each for each in first.rejected if each.precision == "any"]
    beside = [{kept: own[min(place, len(own) - 1)] for place, kept in enumerate(formats[0])} for own in formats]
    does = [_as_first({(each.device, each.precision): each for each in ranking.candidates}, own)
            for ranking, own in zip(alone, beside, strict=True)]  # fmt: skip
    fails = [_as_first({(each.device, each.precision): each.reason for each in ranking.rejected}, own)
             for ranking, own in zip(alone, beside, strict=True)]  # fmt: skip
    found, left = [], []
    for pair in (*does[0], *fails[0]):
        reasons = [_of(name, fail[pair]) for name, fail in zip(names, fails, strict=True) if pair in fail]
        if not reasons:
            whole = _whole([replace(one[pair], model=name) for name, one in zip(names, does, strict=True)], sold)
            reasons = _too_many(whole, site)
            found += [] if reasons else [whole]
        left += [Rejected(*pair, _hardest(reasons))] if reasons else []
    return Ranking(first.lens, ranked(found, sold.reach), (*barred, *left), sum(each.evaluated for each in alone))


def _as_first(found: Mapping[tuple[str, str], Kept], own: Mapping[str, str]) -> dict[tuple[str, str], Kept]:
    """What was found of a model, by the format of the first model that its own stands beside."""
    devices = dict.fromkeys(device for device, _ in found)
    return {(device, first): found[device, kept] for device in devices for first, kept in own.items()
            if (device, kept) in found}  # fmt: skip


def _of(name: str, reason: Finding) -> Finding:
    return replace(reason, numbers={**reason.numbers, "model": name})


def _hardest(reasons: Sequence[Finding]) -> Finding:
    """The reason of the model that misses by most, because of those of the others."""
    worst = max(reasons, key=missed)
    return replace(worst, because=tuple(each for each in reasons if each is not worst))


def _too_many(whole: Candidate, site: Site) -> list[Finding]:
    if whole.power_w is not None and site.power_w is not None and whole.power_w > site.power_w:
        return [rejection("power", needed_w=whole.power_w, cap_w=site.power_w, devices=whole.devices)]
    if whole.used > site.most_devices:
        return [rejection("together", devices=whole.used, most=site.most_devices)]
    return []


def _whole(parts: Sequence[Candidate], sold: Sold) -> Candidate:
    """Layout and links are of the model on most devices, times of the slowest; gains are what every model has."""
    used, large = sum(each.used for each in parts), max(parts, key=lambda each: each.used)
    device = sold.devices[large.device]
    devices = int(bought(used, device.sold_in))
    gains = {name: min(each.limit.gains[name] for each in parts) for name in large.limit.gains}
    rate = _rate(parts, devices)
    return replace(
        large,
        model="",
        precision=" + ".join(dict.fromkeys(each.precision for each in parts)),
        devices=devices,
        used=used,
        rate=rate,
        times=tuple(
            max(same, key=lambda each: each.number) for same in zip(*(each.times for each in parts), strict=True)
        ),
        limit=limit_of(gains),
        offer=offer_of(device, devices, rate, sold.paid, sold.catalogue),
        memory_share=sum(each.memory_share * each.used for each in parts) / used,
        parts=tuple(parts),
    )


def _rate(parts: Sequence[Candidate], devices: int) -> Figure:
    """Answers of all models by all devices. Ends of bands are added: errors of one device are taken as alike."""
    answers = [
        Figure(each.model, each.devices * each.rate.number, "tokens/s", "{0} × {1}",
               (Input("devices", each.devices, "devices"), each.rate), each.devices * each.rate.end("low"),
               each.devices * each.rate.end("high"), each.rate.level)
        for each in parts
    ]  # fmt: skip
    low, value, high = (sum(each.end(name) for each in answers) / devices for name in ("low", "value", "high"))
    formula = f"({' + '.join(f'{{{place}}}' for place in range(len(answers)))}) / {{{len(answers)}}}"
    return Figure(
        "rate-each", value, "tokens/s", formula, (*answers, Input("devices", devices, "devices")), low, high,
        parts[0].rate.level, source=parts[0].rate.source,
    )  # fmt: skip
