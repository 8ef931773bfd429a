"""The lens of inference in a choice: what keeps its targets, and a candidate with its latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from twinlens.planning.choose.candidate import Candidate, Ranking, Reach, limit_of
from twinlens.planning.choose.link import without_link
from twinlens.planning.choose.offer import RENTED, Paid
from twinlens.planning.choose.own import Own, known_on
from twinlens.planning.choose.pairs import Pairs, Times, pairs_of, taken
from twinlens.planning.choose.search import Search, offered, ranking_of, rate_each, reach_in
from twinlens.planning.choose.serving_grid import ServingGrid, Ways, serve, serving_grid, serving_ways
from twinlens.planning.choose.site import rejection
from twinlens.planning.choose.smallest import least_of
from twinlens.planning.choose.together import Sold, together
from twinlens.planning.choose.wanted import ServingWanted, Site
from twinlens.planning.figure import Figure, Input, total
from twinlens.planning.prediction.band import LEVEL
from twinlens.planning.prediction.device_rates import architecture
from twinlens.planning.prediction.label import serving_labels
from twinlens.planning.prediction.place import Layout, Rates, layout_of
from twinlens.planning.prediction.serving import Served
from twinlens.planning.prediction.shipped import Calibrated
from twinlens.planning.prediction.step_time import decode_step
from twinlens.planning.prediction.stored import stored
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device


def serving_ranking(
    wanted: ServingWanted,
    site: Site,
    devices: Sequence[Device],
    known: Calibrated,
    catalogue: Catalogue,
    own: Own | None = None,
    paid: Paid = RENTED,
) -> Ranking:
    """Every device and precision: ranked, or rejected with the constraint that fails. Each model is searched alone."""
    lenses = [_Inference(each, own=own, paid=paid) for each in wanted.models]
    alone = [ranking_of(each, site, devices, known, catalogue, shared=len(lenses) > 1) for each in lenses]
    sold = Sold({each.name: each for each in devices}, paid, catalogue, lenses[0].reach(known))
    names, formats = zip(*((each.subject.name, each.precisions) for each in wanted.models), strict=True)
    return together(names, formats, alone, site, sold)


@dataclass(frozen=True, slots=True)
class _Inference:
    wanted: ServingWanted
    name: Literal["inference"] = "inference"
    own: Own | None = None
    paid: Paid = RENTED

    def reach(self, known: Calibrated) -> Reach:
        return reach_in("tpot", known, self.wanted.engine, self.wanted.subject.name)

    def pairs(self, devices: Sequence[Device], known: Calibrated, catalogue: Catalogue) -> Pairs:
        wanted = self.wanted

        def labels(device: Device, precision: str) -> tuple[str, ...]:
            product = stored(precision, wanted.shape).expert_product
            groups = serving_labels(wanted.engine, device.vendor, architecture(device), product, wanted.shape)
            return groups if self.own is None else self.own.labels(groups, device.name)

        fitted = known if self.own is None else self.own.known
        return pairs_of(devices, wanted.precisions, wanted.shape, fitted, labels, wanted.engine, catalogue)

    def ways(self, most: int) -> Ways:
        return serving_ways(self.wanted.shape, most)

    def grid(self, pairs: Pairs, ways: Ways, allowed: Any, times: Times) -> ServingGrid:
        return serving_grid(self.wanted, pairs, ways, allowed, times)

    def meets(self, grid: ServingGrid) -> Any:
        tpot = np.inf if self.wanted.tpot_s is None else self.wanted.tpot_s
        ttft = np.inf if self.wanted.ttft_s is None else self.wanted.ttft_s
        return (grid.served.tpot_s <= tpot) & (grid.served.ttft_s <= ttft)

    def speed(self, pairs: Pairs, pair: Any, ways: Ways, way: Any, times: Times) -> Any:
        return serve(self.wanted, pairs, pair, ways, way, times).requests_per_s

    def missed(self, grid: ServingGrid, rows: Any) -> Finding:
        wanted, served = self.wanted, grid.served
        for name, target, values in (("tpot", wanted.tpot_s, served.tpot_s), ("ttft", wanted.ttft_s, served.ttft_s)):
            row = least_of(rows, values)
            if target is not None and values[row] > target:
                return rejection(name, best_s=float(values[row]), target_s=target, devices=int(grid.devices[row]))
        return rejection("tpot-and-ttft", tpot_s=wanted.tpot_s, ttft_s=wanted.ttft_s)

    def candidate(self, search: Search, row: int, gains: Mapping[str, float]) -> Candidate:
        wanted, grid, ways = self.wanted, search.grid, search.ways
        pair, way = int(grid.pair[row]), int(grid.way[row])
        device, count = search.pairs.devices[pair], search.bought(row)
        served = Served(**{each.name: float(getattr(grid.served, each.name)[row]) for each in fields(Served)})
        seen: dict[str, Any] = {
            "groups": ways.groups[way] > 1,
            "device": device.name,
            "engine": wanted.engine,
            "model": wanted.subject.name,
        }
        known = known_on(device.name, self.own, search.known)
        band, late = known.band("tpot", **seen), known.band("ttft", **seen)
        layout = layout_of(wanted.engine, *(float(each[way]) for each in (ways.tensor, ways.pipeline, ways.groups)))
        rates = taken(search.pairs.rates, pair)
        step, parts = self._step(search.pairs, pair, rates, layout, served)
        more = Figure("interference", max(0.0, served.tpot_s - step.number), "s",
                      source="prefills of others")  # fmt: skip
        tpot = Figure(
            "tpot", served.tpot_s, "s", "{0} + {1}", (step, more),
            served.tpot_s * band.low, served.tpot_s * band.high, LEVEL, source=known.fitted_on,
        )  # fmt: skip
        ttft = total(
            "ttft", "s", (Figure("prefill", served.prefill_s, "s"), Figure("wait", served.wait_s, "s")),
            low=served.ttft_s * late.low, high=served.ttft_s * late.high, level=LEVEL,
        )  # fmt: skip
        tokens = float(grid.tokens_per_s[row])
        each = rate_each(
            (Input("answer-tokens", tokens, "tokens/s", "modelled"), Input("devices", count, "devices")), "{0} / {1}",
            tokens / count, band, known.fitted_on,
        )  # fmt: skip
        slow, slow_parts = self._step(search.pairs, pair, without_link(rates, device, search.catalogue), layout, served)
        links = {
            "link": device.link, "step_s": step.number, "exposed_s": parts["collectives"],
            "without_step_s": slow.number, "without_exposed_s": slow_parts["collectives"],
            "domain": device.domain, "model_devices": int(ways.each[way]),
        }  # fmt: skip
        split = {name: int(getattr(ways, name)[way]) for name in ("tensor", "pipeline", "copies", "groups")}
        held = float(grid.needed[pair, way] / grid.room[pair])
        return Candidate(device.name, search.pairs.precisions[pair], count, int(grid.devices[row]), split, each,
                         (tpot, ttft), limit_of(gains), offered(self, search, row, each), held,
                         links=links)  # fmt: skip

    def _step(
        self, pairs: Pairs, pair: int, rates: Rates, layout: Layout, served: Served
    ) -> tuple[Figure, dict[str, float]]:
        """A decode step of the batch in equilibrium, and its parts."""
        fitted = pairs.constants(slice(pair, pair + 1))
        context = self.wanted.prompt + self.wanted.answer / 2.0
        found = decode_step(taken(pairs.work, pair), rates, layout, fitted, served.batch, context)
        parts = {each.name.removesuffix("_s"): float(np.ravel(getattr(found, each.name))[0]) for each in fields(found)}
        return total("step", "s", [Figure(name, value, "s") for name, value in parts.items()]), parts
