"""The lens of training in a choice: what keeps its deadline, and a candidate with its step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from twinlens.planning.choose.candidate import Candidate, Ranking, Reach
from twinlens.planning.choose.search import (
    Grid,
    Search,
    candidate_of,
    parts_of,
    ranking_of,
    rate_each,
    reach_in,
    sum_of,
)
from twinlens.planning.choose.site import Pairs, Times, least_of, multiplied, rejection, taken, without_link
from twinlens.planning.choose.wanted import RENTED, Own, Paid, Site, TrainingWanted, known_on
from twinlens.planning.fit.answer import expert_degrees, pipeline_degrees, tensor_degrees, usable
from twinlens.planning.fit.training import Training, training_bytes
from twinlens.planning.fit.training_answer import MEMORY_SHARE
from twinlens.planning.kept import keeps
from twinlens.planning.prediction.answer import training_labels
from twinlens.planning.prediction.band import LEVEL, Calibrated
from twinlens.planning.prediction.place import architecture
from twinlens.planning.prediction.training import TrainingLayout, TrainingParts, training_step
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device
from twinlens.theory.figure import Input
from twinlens.theory.sharding import Split

_EXPOSED = ("tensor", "expert", "data")
"""Parts of a step that are communication."""


@keeps(4)
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

    def labels(self, device: Device, precision: str) -> tuple[str, ...]:
        wanted, arch = self.wanted, architecture(device)
        return training_labels(wanted.engine, arch, precision, wanted.shape, adapters=wanted.method != "full")

    def ways(self, most: int) -> TrainingWays:
        return training_ways(self.wanted, most)

    def grid(self, pairs: Pairs, ways: TrainingWays, allowed: Any, times: Times) -> Grid:
        return training_grid(self.wanted, pairs, ways, allowed, times)

    def meets(self, grid: Grid) -> Any:
        return grid.tokens_per_s >= (0.0 if self.wanted.tokens_per_s is None else self.wanted.tokens_per_s)

    def speed(self, pairs: Pairs, pair: Any, ways: TrainingWays, way: Any, times: Times) -> Any:
        return 1.0 / train(self.wanted, pairs, pair, ways, way, times).total_s

    def missed(self, grid: Grid, rows: Any) -> Finding:
        row = least_of(rows, grid.found.total_s)
        return rejection(
            "deadline", best_tokens_per_s=float(grid.tokens_per_s[row]), tokens_per_s=self.wanted.tokens_per_s,
            devices=int(grid.devices[row]),
        )  # fmt: skip

    def candidate(self, search: Search, row: int, gains: Mapping[str, float]) -> Candidate:
        wanted, grid = self.wanted, search.grid
        pair, way = int(grid.pair[row]), int(grid.way[row])
        device, count = search.pairs.devices[pair], search.bought(row)
        parts = parts_of(grid.found, row)
        known = known_on(device.name, self.own, search.known)
        band = known.band(self.metric, device=device.name, engine=wanted.engine, model=wanted.subject.name)
        seconds = float(grid.found.total_s[row])
        ends = {"low": seconds * band.low, "high": seconds * band.high, "level": LEVEL}
        step = sum_of("training-step", parts, **ends, source=known.fitted_on)
        each = rate_each(
            (Input("sequences", wanted.sequences, "sequences"), Input("length", wanted.length, "tokens"), step,
             Input("devices", count, "devices")),
            "{0} × {1} / {2} / {3}", float(grid.tokens_per_s[row]) / count, band, known.fitted_on,
        )  # fmt: skip
        links = self._links(search, pair, way, parts, seconds)
        split = ("data", "tensor", "pipeline", "expert", "zero", "microbatch", "recompute")
        return candidate_of(self, search, row, gains, split=split, rate=each, times=(step,), links=links)

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


# Training on every pair in every layout: memory, then the time of a step and its parts, as arrays.

MICROBATCHES = (1, 2, 4)
RECOMPUTE = ("none", "full")


@dataclass(frozen=True, slots=True)
class TrainingWays:
    """Layouts: devices = tensor · pipeline · data. `zero` is 3 (FSDP) without a pipeline and 1 with one."""

    tensor: Any
    pipeline: Any
    data: Any
    expert: Any
    microbatch: Any
    zero: Any
    recompute: Any
    """1: every layer is computed again in backward."""

    @property
    def devices(self) -> Any:
        return self.tensor * self.pipeline * self.data


def training_ways(wanted: TrainingWanted, most: int) -> TrainingWays:
    """Every legal layout of at most so many devices whose copies share the batch evenly."""
    shape, rows = wanted.shape, []
    for tensor in tensor_degrees(shape, most):
        for pipeline in pipeline_degrees(shape, most // tensor):
            for data in range(1, most // (tensor * pipeline) + 1):
                each, left = divmod(wanted.sequences, data)
                if left:
                    continue
                for expert in (degree for degree in expert_degrees(shape, data) if data % degree == 0):
                    zero = 0 if data == 1 else 1 if pipeline > 1 else 3
                    rows += [(tensor, pipeline, data, expert, micro, zero, again)
                             for micro in MICROBATCHES if each % micro == 0 for again in (0, 1)]  # fmt: skip
    return TrainingWays(*np.array(rows, dtype=np.float64).T)


def training_grid(
    wanted: TrainingWanted, pairs: Pairs, ways: TrainingWays, allowed: Any, times: Times = Times()
) -> Grid:
    """Everything that fits. `allowed`: pairs × ways, False where the site forbids it."""
    each = needed_bytes(wanted, ways)
    room = np.array([usable(each, MEMORY_SHARE).number for each in pairs.devices])
    room = times.memory * np.minimum(room, pairs.rates.memory_bytes)
    pair, way = np.nonzero(allowed & (each[None, :] <= room[:, None]))
    parts = train(wanted, pairs, pair, ways, way, times)
    rate = wanted.sequences * wanted.length / parts.total_s
    needed = np.broadcast_to(each, (len(room), len(each)))
    return Grid(pair, way, ways.devices[way], parts, rate, needed, room)


def train(
    wanted: TrainingWanted, pairs: Pairs, pair: Any, ways: TrainingWays, way: Any, times: Times = Times()
) -> TrainingParts:
    """Seconds of one step in each row, by cause."""
    layout = TrainingLayout(
        ways.devices[way], ways.tensor[way], ways.pipeline[way], 1.0, 1.0, ways.expert[way],
        np.where(ways.zero[way] == 3, 1.0, 0.0), ways.recompute[way], float(wanted.method != "full"),
    )  # fmt: skip
    rates = multiplied(taken(pairs.rates, pair), times)
    work, fitted = taken(pairs.work, pair), pairs.constants(pair)
    return training_step(work, rates, layout, fitted, wanted.sequences, ways.microbatch[way], wanted.length)


def needed_bytes(wanted: TrainingWanted, ways: TrainingWays) -> Any:
    """Bytes on the fullest device of each layout, by the sum of `plan fit --train`."""
    out = np.zeros(len(ways.data))
    for zero in (0, 1, 3):
        for again, name in enumerate(RECOMPUTE):
            rows = (ways.zero == zero) & (ways.recompute == again)
            if rows.any():
                plan = Training(wanted.subject, wanted.method, context=wanted.length, batch=ways.microbatch[rows],
                                recompute=name)  # type: ignore[arg-type]  # fmt: skip
                stages = ways.pipeline[rows]
                split = Split(ways.data[rows], ways.tensor[rows], stages, 1, ways.expert[rows], zero, 4 * stages)
                out[rows] = sum(training_bytes(plan, split).values())
    return out
