"""The lens of inference in a choice: what keeps its targets, and a candidate with its latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from twinlens.planning.choose.candidate import Candidate, Ranking, Reach
from twinlens.planning.choose.search import (
    Grid,
    Search,
    Sold,
    candidate_of,
    parts_of,
    ranking_of,
    rate_each,
    reach_in,
    sum_of,
    together,
)
from twinlens.planning.choose.site import Pairs, Times, least_of, multiplied, rejection, taken, without_link
from twinlens.planning.choose.wanted import RENTED, Own, Paid, ServingWanted, Site, known_on
from twinlens.planning.fit.answer import copy_layouts, may_group, pipeline_degrees, tensor_degrees, usable
from twinlens.planning.fit.runtime import runtime_of
from twinlens.planning.fit.serving import Serving, held, most_sequences
from twinlens.planning.kept import keeps
from twinlens.planning.prediction.answer import serving_labels
from twinlens.planning.prediction.band import LEVEL, Calibrated
from twinlens.planning.prediction.place import Layout, Rates, architecture, layout_of
from twinlens.planning.prediction.serving import Served, closed_loop
from twinlens.planning.prediction.step_time import decode_step
from twinlens.planning.prediction.work import held_format, kept_cache, stored
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.figure import Figure, Input, total


@keeps(4)
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

    def labels(self, device: Device, precision: str) -> tuple[str, ...]:
        product = stored(precision, self.wanted.shape).expert_product
        return serving_labels(self.wanted.engine, device.vendor, architecture(device), product, self.wanted.shape)

    def ways(self, most: int) -> Ways:
        return serving_ways(self.wanted.shape, most)

    def grid(self, pairs: Pairs, ways: Ways, allowed: Any, times: Times) -> Grid:
        return serving_grid(self.wanted, pairs, ways, allowed, times)

    def meets(self, grid: Grid) -> Any:
        tpot = np.inf if self.wanted.tpot_s is None else self.wanted.tpot_s
        ttft = np.inf if self.wanted.ttft_s is None else self.wanted.ttft_s
        return (grid.found.tpot_s <= tpot) & (grid.found.ttft_s <= ttft)

    def speed(self, pairs: Pairs, pair: Any, ways: Ways, way: Any, times: Times) -> Any:
        return serve(self.wanted, pairs, pair, ways, way, times).requests_per_s

    def missed(self, grid: Grid, rows: Any) -> Finding:
        wanted, served = self.wanted, grid.found
        for name, target, values in (("tpot", wanted.tpot_s, served.tpot_s), ("ttft", wanted.ttft_s, served.ttft_s)):
            row = least_of(rows, values)
            if target is not None and values[row] > target:
                return rejection(name, best_s=float(values[row]), target_s=target, devices=int(grid.devices[row]))
        return rejection("tpot-and-ttft", tpot_s=wanted.tpot_s, ttft_s=wanted.ttft_s)

    def candidate(self, search: Search, row: int, gains: Mapping[str, float]) -> Candidate:
        wanted, grid, ways = self.wanted, search.grid, search.ways
        pair, way = int(grid.pair[row]), int(grid.way[row])
        device, count = search.pairs.devices[pair], search.bought(row)
        served = Served(**{each.name: float(getattr(grid.found, each.name)[row]) for each in fields(Served)})
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
        split = ("tensor", "pipeline", "copies", "groups")
        return candidate_of(self, search, row, gains, split=split, rate=each, times=(tpot, ttft), links=links)

    def _step(
        self, pairs: Pairs, pair: int, rates: Rates, layout: Layout, served: Served
    ) -> tuple[Figure, dict[str, float]]:
        """A decode step of the batch in equilibrium, and its parts."""
        fitted = pairs.constants(slice(pair, pair + 1))
        context = self.wanted.prompt + self.wanted.answer / 2.0
        found = decode_step(taken(pairs.work, pair), rates, layout, fitted, served.batch, context)
        parts = parts_of(found)
        return sum_of("step", parts), parts


# Serving on every pair in every layout: memory, then latency and throughput, as arrays.


@dataclass(frozen=True, slots=True)
class Ways:
    """Layouts: `copies` of a model, each on tensor · pipeline · groups devices; groups share the experts."""

    tensor: Any
    pipeline: Any
    copies: Any
    groups: Any

    @property
    def each(self) -> Any:
        """Devices of a copy."""
        return self.tensor * self.pipeline * self.groups

    @property
    def devices(self) -> Any:
        return self.each * self.copies


def serving_ways(shape: DecoderShape, most: int) -> Ways:
    """Every legal layout of at most so many devices."""
    plain = [(tensor, pipeline, 1) for tensor in tensor_degrees(shape, most)
             for pipeline in pipeline_degrees(shape, most // tensor)]  # fmt: skip
    shared = [(tensor, 1, groups) for tensor, groups in copy_layouts(shape, most)]
    rows = [(tensor, pipeline, copies, groups) for tensor, pipeline, groups in (*plain, *shared)
            for copies in range(1, most // (tensor * pipeline * groups) + 1)]  # fmt: skip
    return Ways(*np.array(rows, dtype=np.float64).T)


def serving_grid(wanted: ServingWanted, pairs: Pairs, ways: Ways, allowed: Any, times: Times = Times()) -> Grid:
    """Everything that fits. `allowed`: pairs × ways, False where the site forbids it."""
    plans = [_plan(wanted, precision) for precision in pairs.precisions]
    users = np.ceil(wanted.users / ways.copies)
    needed = np.array(_needed(plans, pairs, ways, users))
    room = times.memory * _room(plans, pairs)
    grouping = [plan.runtime.shares_experts and may_group(each)
                for plan, each in zip(plans, pairs.devices, strict=True)]  # fmt: skip
    legal = np.array(grouping)[:, None] | (ways.groups == 1)
    pair, way = np.nonzero(allowed & legal & (needed <= room[:, None]))
    served = serve(wanted, pairs, pair, ways, way, times)
    tokens = served.requests_per_s * wanted.answer * ways.copies[way]
    return Grid(pair, way, ways.devices[way], served, tokens, needed, room)


def serve(wanted: ServingWanted, pairs: Pairs, pair: Any, ways: Ways, way: Any, times: Times = Times()) -> Served:
    """Latency of one copy in each row. Rows of more copies with as many users on each are one row, computed once."""
    _, users = np.unique(np.ceil(wanted.users / ways.copies[way]), return_inverse=True)
    alike = _numbered(pair, ways.tensor[way], ways.pipeline[way], ways.groups[way], users)
    _, first, again = np.unique(alike, return_index=True, return_inverse=True)
    pair, way = pair[first], way[first]
    layout = layout_of(wanted.engine, ways.tensor[way], ways.pipeline[way], ways.groups[way])
    users = np.ceil(wanted.users / ways.copies[way])
    rates = multiplied(taken(pairs.rates, pair), times)
    fitted, most = pairs.constants(pair), _most(wanted, pairs, pair, ways, way, times)
    found = closed_loop(taken(pairs.work, pair), rates, layout, fitted, users, wanted.prompt, wanted.answer, most)
    return Served(**{each.name: np.asarray(getattr(found, each.name))[again] for each in fields(Served)})


def _numbered(*columns: Any) -> Any:
    """One whole number for each row, the same for rows whose columns are; columns hold whole numbers from 0."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for each in columns:
        number = number * (int(each.max(initial=0)) + 1) + each.astype(np.int64)
    return number


def _plan(wanted: ServingWanted, precision: str) -> Serving:
    """One user as `plan fit` asks about it."""
    kept = kept_cache(precision, wanted.engine)[1]
    return Serving(wanted.subject, held_format(precision, wanted.subject), kv_element_bytes=kept,
                   context=wanted.prompt + wanted.answer, runtime=runtime_of(wanted.engine))  # fmt: skip


def _room(plans: Sequence[Serving], pairs: Pairs) -> Any:
    """Usable bytes on a device of each pair."""
    both = zip(plans, pairs.devices, strict=True)
    return np.array([usable(device, plan.runtime.memory_share).number for plan, device in both])


def _needed(plans: Sequence[Serving], pairs: Pairs, ways: Ways, users: Any) -> list[Any]:
    """Bytes on each device of each layout, pair by pair; devices for which the runtime samples alike share theirs."""
    known: dict[tuple[str, int], Any] = {}
    for plan, device in zip(plans, pairs.devices, strict=True):
        key = _alike(plan, device)
        if key not in known:
            found = held(plan, device.known_memory_bytes, ways.tensor, ways.pipeline, users, ways.groups)
            known[key] = found.total_bytes
    return [known[_alike(plan, device)] for plan, device in zip(plans, pairs.devices, strict=True)]


def _most(wanted: ServingWanted, pairs: Pairs, pair: Any, ways: Ways, way: Any, times: Times) -> Any:
    """Sequences that a copy has room for, in each row."""
    plans = [_plan(wanted, precision) for precision in pairs.precisions]
    room, out = times.memory * _room(plans, pairs), np.zeros(len(pair))
    keys = [_alike(plan, device) for plan, device in zip(plans, pairs.devices, strict=True)]
    for key in dict.fromkeys(keys):
        rows = np.flatnonzero(np.array([each == key for each in keys])[pair])
        if len(rows):
            first = keys.index(key)
            out[rows] = most_sequences(
                plans[first], room[pair[rows]], pairs.devices[first].known_memory_bytes, ways.tensor[way[rows]],
                ways.pipeline[way[rows]], ways.groups[way[rows]],
            )  # fmt: skip
    return out


def _alike(plan: Serving, device: Device) -> tuple[str, int]:
    """What bytes depend on besides the layout: the format, and sequences for which the runtime samples."""
    return plan.weight_format, plan.runtime.most_sequences(device.known_memory_bytes)
