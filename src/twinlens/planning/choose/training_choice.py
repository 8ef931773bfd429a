"""The ranking of training: the smallest system of each device and precision that holds it and keeps the deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from twinlens.planning.choose.candidate import Candidate, Ranking, Rejected, limit_of, ranked
from twinlens.planning.choose.link import without_link
from twinlens.planning.choose.pairs import Pairs, Times, pairs_of, taken
from twinlens.planning.choose.serving_choice import DOUBLED
from twinlens.planning.choose.site import allowed, forbidden, rejection, too_little
from twinlens.planning.choose.smallest import least_of, smallest, sold
from twinlens.planning.choose.training_grid import TrainingGrid, TrainingWays, train, training_grid, training_ways
from twinlens.planning.choose.wanted import Site, TrainingWanted
from twinlens.planning.figure import Figure, Input, total
from twinlens.planning.prediction.band import LEVEL
from twinlens.planning.prediction.device_rates import architecture
from twinlens.planning.prediction.label import training_labels
from twinlens.planning.prediction.shipped import Calibrated
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device


def training_ranking(
    wanted: TrainingWanted, site: Site, devices: Sequence[Device], known: Calibrated, catalogue: Catalogue
) -> Ranking:
    """Every device and precision: ranked, or rejected with the constraint that fails."""
    barred = {each.name: why for each in devices if (why := forbidden(each, site, trains=True))}
    rejected = [Rejected(name, "any", why) for name, why in barred.items()]
    left = [each for each in devices if each.name not in barred]
    if not left:
        return Ranking("training", (), tuple(rejected), 0)

    def groups(device: Device, precision: str) -> tuple[str, ...]:
        adapters = wanted.method != "full"
        return training_labels(wanted.engine, architecture(device), precision, wanted.shape, adapters=adapters)

    pairs = pairs_of(left, wanted.precisions, wanted.shape, known, groups, wanted.engine, catalogue)
    ways = training_ways(wanted, site.most_devices)
    may = allowed(pairs.devices, ways.devices, site)
    grid = training_grid(wanted, pairs, ways, may)
    least = 0.0 if wanted.tokens_per_s is None else wanted.tokens_per_s
    chosen = smallest(grid.pair, grid.devices, grid.tokens_per_s, (grid.tokens_per_s >= least) & sold(grid.devices))
    more = training_grid(wanted, pairs, ways, may, Times(memory=2.0))
    roomier = smallest(more.pair, more.devices, more.tokens_per_s, (more.tokens_per_s >= least) & sold(more.devices))
    gains = _gains(wanted, pairs, ways, grid, chosen)
    found = []
    for pair in range(len(pairs)):
        row = chosen.get(pair)
        if row is None:
            why = _why_not(wanted, site, pairs, ways, grid, pair, may)
            rejected.append(Rejected(pairs.devices[pair].name, pairs.precisions[pair], why))
            continue
        other, now = roomier[pair], grid.tokens_per_s[row] / grid.devices[row]
        memory = max(1.0, float(more.tokens_per_s[other] / more.devices[other] / now))
        found.append(_candidate(wanted, pairs, ways, grid, row, {**gains[pair], "memory": memory}, known, catalogue))
    return Ranking("training", ranked(found), tuple(rejected), len(grid.pair))


def _gains(
    wanted: TrainingWanted, pairs: Pairs, ways: TrainingWays, grid: TrainingGrid, chosen: Mapping[int, int]
) -> dict[int, dict[str, float]]:
    """Time of a step now over that with twice the resource, in the layout that was chosen."""
    rows = np.array([*chosen.values()], dtype=int)
    pair, way = grid.pair[rows], grid.way[rows]
    out: dict[int, dict[str, float]] = {int(each): {} for each in pair}
    for name, times in DOUBLED.items():
        faster = train(wanted, pairs, pair, ways, way, times).total_s
        for each, gain in zip(pair, grid.step_s[rows] / faster, strict=True):
            out[int(each)][name] = float(gain)
    return out


def _why_not(
    wanted: TrainingWanted, site: Site, pairs: Pairs, ways: TrainingWays, grid: TrainingGrid, pair: int, may: Any
) -> Finding:
    """The constraint that fails: memory, power, or the deadline that the fastest layout misses."""
    device, room = pairs.devices[pair], float(grid.room[pair])
    why = too_little(grid.needed, ways.devices, room, device, site, may[pair])
    if why is not None:
        return why
    rows = (grid.pair == pair) & sold(grid.devices)
    row = least_of(rows, grid.step_s)
    best, devices = float(grid.tokens_per_s[row]), int(grid.devices[row])
    return rejection("deadline", best_tokens_per_s=best, tokens_per_s=wanted.tokens_per_s, devices=devices)


def _candidate(
    wanted: TrainingWanted,
    pairs: Pairs,
    ways: TrainingWays,
    grid: TrainingGrid,
    row: int,
    gains: Mapping[str, float],
    known: Calibrated,
    catalogue: Catalogue,
) -> Candidate:
    pair, way = int(grid.pair[row]), int(grid.way[row])
    device, count = pairs.devices[pair], int(grid.devices[row])
    parts = {each.name.removesuffix("_s"): float(getattr(grid.parts, each.name)[row]) for each in fields(grid.parts)}
    metric = "training step of experts" if wanted.shape.experts else "training step"
    band = known.band(metric, device=device.name, engine=wanted.engine, model=wanted.subject.name)
    seconds = float(grid.step_s[row])
    step = total(
        "training-step", "s", [Figure(name, value, "s") for name, value in parts.items()],
        low=seconds * band.low, high=seconds * band.high, level=LEVEL, source=known.fitted_on,
    )  # fmt: skip
    rate = float(grid.tokens_per_s[row]) / count
    each = Figure(
        "rate-each", rate, "tokens/s", "{0} × {1} / {2} / {3}",
        (Input("sequences", wanted.sequences, "sequences"), Input("length", wanted.length, "tokens"), step,
         Input("devices", count, "devices")),
        rate / band.high, rate / band.low, LEVEL, source=known.fitted_on,
    )  # fmt: skip
    held = float(grid.needed[way] / grid.room[pair])
    power = None if device.tdp_w is None else count * device.tdp_w
    links = _links(wanted, pairs, pair, ways, way, device, parts, seconds, catalogue)
    split = {name: int(getattr(ways, name)[way]) for name in ("data", "tensor", "pipeline", "expert", "zero")}
    split |= {"microbatch": int(ways.microbatch[way]), "recompute": int(ways.recompute[way])}
    return Candidate(device.name, pairs.precisions[pair], count, split, each, (step,),
                     limit_of(gains, "training step"), power, held, links=links)  # fmt: skip


def _links(
    wanted: TrainingWanted,
    pairs: Pairs,
    pair: int,
    ways: TrainingWays,
    way: int,
    device: Device,
    parts: Mapping[str, float],
    seconds: float,
    catalogue: Catalogue,
) -> dict[str, Any]:
    """Exposed communication and bubble, and the same step where devices have their bus alone."""
    alone, ways_ = np.array([0]), np.array([way])
    one = Pairs((device,), (pairs.precisions[pair],), taken(pairs.rates, alone + pair), taken(pairs.work, alone + pair),
                pairs.logs[pair : pair + 1], pairs.names)  # fmt: skip
    bused = Pairs(
        one.devices, one.precisions, without_link(one.rates, device, catalogue), one.work, one.logs, one.names
    )
    slow = train(wanted, bused, alone, ways, ways_)
    exposed = ("tensor", "expert", "data")
    return {
        "link": device.link, "step_s": seconds, "exposed_s": sum(parts[name] for name in exposed),
        "without_step_s": float(np.ravel(slow.total_s)[0]),
        "without_exposed_s": float(sum(np.ravel(getattr(slow, f"{name}_s"))[0] for name in exposed)),
        "bubble_s": parts["bubble"], "domain": device.domain, "model_devices": int(ways.devices[way]),
    }  # fmt: skip
