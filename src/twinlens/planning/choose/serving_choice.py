"""The ranking of inference: the smallest system of each device and precision that keeps the targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from twinlens.planning.choose.candidate import Candidate, Ranking, Rejected, limit_of, ranked
from twinlens.planning.choose.link import without_link
from twinlens.planning.choose.pairs import Pairs, Times, pairs_of, taken
from twinlens.planning.choose.serving_grid import ServingGrid, Ways, serve, serving_grid, serving_ways
from twinlens.planning.choose.site import allowed, forbidden, rejection, too_little
from twinlens.planning.choose.smallest import least_of, smallest, sold
from twinlens.planning.choose.wanted import ServingWanted, Site
from twinlens.planning.figure import Figure, Input, total
from twinlens.planning.prediction.band import LEVEL
from twinlens.planning.prediction.device_rates import architecture
from twinlens.planning.prediction.label import serving_labels
from twinlens.planning.prediction.place import Layout, Rates
from twinlens.planning.prediction.serving import Served
from twinlens.planning.prediction.shipped import Calibrated
from twinlens.planning.prediction.step_time import decode_step
from twinlens.planning.prediction.stored import stored
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device

DOUBLED = {"bandwidth": Times(bandwidth=2), "compute": Times(compute=2), "link": Times(link=2)}


def serving_ranking(
    wanted: ServingWanted, site: Site, devices: Sequence[Device], known: Calibrated, catalogue: Catalogue
) -> Ranking:
    """Every device and precision: ranked, or rejected with the constraint that fails."""
    barred = {each.name: why for each in devices if (why := forbidden(each, site, trains=False))}
    rejected = [Rejected(name, "any", why) for name, why in barred.items()]
    left = [each for each in devices if each.name not in barred]
    if not left:
        return Ranking("inference", (), tuple(rejected), 0)

    def groups(device: Device, precision: str) -> tuple[str, ...]:
        product = stored(precision, wanted.shape).expert_product
        return serving_labels(wanted.engine, device.vendor, architecture(device), product, wanted.shape)

    pairs = pairs_of(left, wanted.precisions, wanted.shape, known, groups, wanted.engine, catalogue)
    ways = serving_ways(wanted.shape, site.most_devices)
    may = allowed(pairs.devices, ways.devices, site)
    grid = serving_grid(wanted, pairs, ways, may)
    chosen = smallest(grid.pair, grid.devices, grid.tokens_per_s, _meets(wanted, grid) & sold(grid.devices))
    more = serving_grid(wanted, pairs, ways, may, Times(memory=2.0))
    roomier = smallest(more.pair, more.devices, more.tokens_per_s, _meets(wanted, more) & sold(more.devices))
    gains = _gains(wanted, pairs, ways, grid, chosen)
    found = []
    for pair in range(len(pairs)):
        row = chosen.get(pair)
        if row is None:
            why = _why_not(wanted, site, pairs, ways, grid, pair, may)
            rejected.append(Rejected(pairs.devices[pair].name, pairs.precisions[pair], why))
            continue
        other = roomier[pair]
        each = grid.tokens_per_s[row] / grid.devices[row]
        memory = max(1.0, float(more.tokens_per_s[other] / more.devices[other] / each))
        found.append(_candidate(wanted, pairs, ways, grid, row, {**gains[pair], "memory": memory}, known, catalogue))
    return Ranking("inference", ranked(found), tuple(rejected), len(grid.pair))


def _meets(wanted: ServingWanted, grid: ServingGrid) -> Any:
    tpot = np.inf if wanted.tpot_s is None else wanted.tpot_s
    ttft = np.inf if wanted.ttft_s is None else wanted.ttft_s
    return (grid.served.tpot_s <= tpot) & (grid.served.ttft_s <= ttft)


def _gains(
    wanted: ServingWanted, pairs: Pairs, ways: Ways, grid: ServingGrid, chosen: Mapping[int, int]
) -> dict[int, dict[str, float]]:
    """Time per token now over that with twice the resource, in the layout that was chosen."""
    rows = np.array([*chosen.values()], dtype=int)
    pair, way = grid.pair[rows], grid.way[rows]
    out: dict[int, dict[str, float]] = {int(each): {} for each in pair}
    for name, times in DOUBLED.items():
        faster = serve(wanted, pairs, pair, ways, way, times).tpot_s
        for each, gain in zip(pair, grid.served.tpot_s[rows] / faster, strict=True):
            out[int(each)][name] = float(gain)
    return out


def _why_not(
    wanted: ServingWanted, site: Site, pairs: Pairs, ways: Ways, grid: ServingGrid, pair: int, may: Any
) -> Finding:
    """The constraint that fails: memory, power, or the target that the fastest layout misses."""
    device, room = pairs.devices[pair], float(grid.room[pair])
    why = too_little(grid.needed[pair], ways.devices, room, device, site, may[pair])
    if why is not None:
        return why
    rows = (grid.pair == pair) & sold(grid.devices)
    for name, target, values in (
        ("tpot", wanted.tpot_s, grid.served.tpot_s), ("ttft", wanted.ttft_s, grid.served.ttft_s)
    ):  # fmt: skip
        row = least_of(rows, values)
        if target is not None and values[row] > target:
            return rejection(name, best_s=float(values[row]), target_s=target, devices=int(grid.devices[row]))
    return rejection("tpot-and-ttft", tpot_s=wanted.tpot_s, ttft_s=wanted.ttft_s)


def _candidate(
    wanted: ServingWanted,
    pairs: Pairs,
    ways: Ways,
    grid: ServingGrid,
    row: int,
    gains: Mapping[str, float],
    known: Calibrated,
    catalogue: Catalogue,
) -> Candidate:
    pair, way = int(grid.pair[row]), int(grid.way[row])
    device, count = pairs.devices[pair], int(grid.devices[row])
    served = Served(**{each.name: float(getattr(grid.served, each.name)[row]) for each in fields(Served)})
    rates, layout = taken(pairs.rates, pair), Layout(float(ways.tensor[way]), 1.0, float(ways.pipeline[way]), 1.0)
    step, parts = _step(wanted, pairs, pair, rates, layout, served)
    band = known.band("tpot", device=device.name, engine=wanted.engine, model=wanted.subject.name)
    more = Figure("interference", max(0.0, served.tpot_s - float(step.value or 0)), "s", source="prefills of others")
    tpot = Figure(
        "tpot", served.tpot_s, "s", "{0} + {1}", (step, more),
        served.tpot_s * band.low, served.tpot_s * band.high, LEVEL, source=known.fitted_on,
    )  # fmt: skip
    late = known.band("ttft", device=device.name, engine=wanted.engine, model=wanted.subject.name)
    prefill = Figure("prefill", served.prefill_s, "s")
    wait = Figure("wait", served.wait_s, "s")
    ttft = total(
        "ttft", "s", (prefill, wait), low=served.ttft_s * late.low, high=served.ttft_s * late.high, level=LEVEL
    )
    rate = float(grid.tokens_per_s[row]) / count
    each = Figure(
        "rate-each", rate, "tokens/s", "{0} / {1}",
        (Input("answer-tokens", float(grid.tokens_per_s[row]), "tokens/s", "modelled"),
         Input("devices", count, "devices")),
        rate / band.high, rate / band.low, LEVEL, source=known.fitted_on,
    )  # fmt: skip
    slow = _step(wanted, pairs, pair, without_link(rates, device, catalogue), layout, served)
    links = {
        "link": device.link, "step_s": float(step.value or 0), "exposed_s": parts["collectives"],
        "without_step_s": float(slow[0].value or 0), "without_exposed_s": slow[1]["collectives"],
        "domain": device.domain, "model_devices": int(layout.devices),
    }  # fmt: skip
    split = {"tensor": int(ways.tensor[way]), "pipeline": int(ways.pipeline[way]), "copies": int(ways.copies[way])}
    held = float(grid.needed[pair, way] / grid.room[pair])
    power = None if device.tdp_w is None else count * device.tdp_w
    return Candidate(device.name, pairs.precisions[pair], count, split, each, (tpot, ttft),
                     limit_of(gains, "decode"), power, held, links=links)  # fmt: skip


def _step(
    wanted: ServingWanted, pairs: Pairs, pair: int, rates: Rates, layout: Layout, served: Served
) -> tuple[Figure, dict[str, float]]:
    """A decode step of the batch in equilibrium, and its parts."""
    fitted = pairs.constants(slice(pair, pair + 1))
    context = wanted.prompt + wanted.answer / 2.0
    found = decode_step(taken(pairs.work, pair), rates, layout, fitted, served.batch, context)
    parts = {each.name.removesuffix("_s"): float(np.ravel(getattr(found, each.name))[0]) for each in fields(found)}
    return total("step", "s", [Figure(name, value, "s") for name, value in parts.items()]), parts
