"""The lens of training in a choice: what keeps its deadline, and a candidate with its step."""

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
from twinlens.planning.choose.site import rejection
from twinlens.planning.choose.smallest import least_of
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

_EXPOSED = ("tensor", "expert", "data")
"""Parts of a step that are communication."""


def training_ranking(
    wanted: TrainingWanted,
    site: Site,
    devices: Sequence[Device],
    known: Calibrated,
    catalogue: Catalogue,
    own: Own | None = None,
    paid: Paid = RENTED,
) -> Ranking:
    """Every device and precision: ranked, or rejected with the constraint that fails."""
    return ranking_of(_Training(wanted, own=own, paid=paid), site, devices, known, catalogue)


@dataclass(frozen=True, slots=True)
class _Training:
    wanted: TrainingWanted
    name: Literal["training"] = "training"
    own: Own | None = None
    paid: Paid = RENTED

    @property
    def metric(self) -> str:
        return "training step of experts" if self.wanted.shape.experts else "training step"

    def reach(self, known: Calibrated) -> Reach:
        return reach_in(self.metric, known, self.wanted.engine, self.wanted.subject.name)

    def pairs(self, devices: Sequence[Device], known: Calibrated, catalogue: Catalogue) -> Pairs:
        wanted = self.wanted

        def labels(device: Device, precision: str) -> tuple[str, ...]:
            adapters = wanted.method != "full"
            arch = architecture(device)
            groups = training_labels(wanted.engine, arch, precision, wanted.shape, adapters=adapters)
            return groups if self.own is None else self.own.labels(groups, device.name)

        fitted = known if self.own is None else self.own.known
        return pairs_of(devices, wanted.precisions, wanted.shape, fitted, labels, wanted.engine, catalogue)

    def ways(self, most: int) -> TrainingWays:
        return training_ways(self.wanted, most)

    def grid(self, pairs: Pairs, ways: TrainingWays, allowed: Any, times: Times) -> TrainingGrid:
        return training_grid(self.wanted, pairs, ways, allowed, times)

    def meets(self, grid: TrainingGrid) -> Any:
        return grid.tokens_per_s >= (0.0 if self.wanted.tokens_per_s is None else self.wanted.tokens_per_s)

    def speed(self, pairs: Pairs, pair: Any, ways: TrainingWays, way: Any, times: Times) -> Any:
        return 1.0 / train(self.wanted, pairs, pair, ways, way, times).total_s

    def missed(self, grid: TrainingGrid, rows: Any) -> Finding:
        row = least_of(rows, grid.seconds)
        return rejection(
            "deadline", best_tokens_per_s=float(grid.tokens_per_s[row]), tokens_per_s=self.wanted.tokens_per_s,
            devices=int(grid.devices[row]),
        )  # fmt: skip

    def candidate(self, search: Search, row: int, gains: Mapping[str, float]) -> Candidate:
        wanted, grid, ways = self.wanted, search.grid, search.ways
        pair, way = int(grid.pair[row]), int(grid.way[row])
        device, count = search.pairs.devices[pair], search.bought(row)
        parts = {each.name.removesuffix("_s"): float(getattr(grid.parts, each.name)[row])
                 for each in fields(grid.parts)}  # fmt: skip
        known = known_on(device.name, self.own, search.known)
        band = known.band(self.metric, device=device.name, engine=wanted.engine, model=wanted.subject.name)
        seconds = float(grid.seconds[row])
        step = total(
            "training-step", "s", [Figure(name, value, "s") for name, value in parts.items()],
            low=seconds * band.low, high=seconds * band.high, level=LEVEL, source=known.fitted_on,
        )  # fmt: skip
        each = rate_each(
            (Input("sequences", wanted.sequences, "sequences"), Input("length", wanted.length, "tokens"), step,
             Input("devices", count, "devices")),
            "{0} × {1} / {2} / {3}", float(grid.tokens_per_s[row]) / count, band, known.fitted_on,
        )  # fmt: skip
        split = {name: int(getattr(ways, name)[way]) for name in ("data", "tensor", "pipeline", "expert", "zero")}
        split |= {"microbatch": int(ways.microbatch[way]), "recompute": int(ways.recompute[way])}
        held = float(grid.needed[pair, way] / grid.room[pair])
        return Candidate(device.name, search.pairs.precisions[pair], count, int(grid.devices[row]), split, each,
                         (step,), limit_of(gains), offered(self, search, row, each), held,
                         links=self._links(search, pair, way, parts, seconds))  # fmt: skip

    def _links(self, search: Search, pair: int, way: int, parts: Mapping[str, float], seconds: float) -> dict[str, Any]:
        """Exposed communication and bubble, and the same step where devices have their bus alone."""
        device, alone = search.pairs.devices[pair], np.array([0])
        rates = without_link(taken(search.pairs.rates, alone + pair), device, search.catalogue)
        bused = Pairs((device,), (search.pairs.precisions[pair],), rates, taken(search.pairs.work, alone + pair),
                      search.pairs.logs[pair : pair + 1], search.pairs.names)  # fmt: skip
        slow = train(self.wanted, bused, alone, search.ways, np.array([way]))
        return {
            "link": device.link, "step_s": seconds, "exposed_s": sum(parts[name] for name in _EXPOSED),
            "without_step_s": float(np.ravel(slow.total_s)[0]),
            "without_exposed_s": float(sum(np.ravel(getattr(slow, f"{name}_s"))[0] for name in _EXPOSED)),
            "bubble_s": parts["bubble"], "domain": device.domain, "model_devices": int(search.ways.devices[way]),
        }  # fmt: skip
