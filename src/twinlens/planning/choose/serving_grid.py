"""Serving on every pair in every layout: memory, then latency and throughput, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlens.planning.choose.pairs import Pairs, Times, multiplied, taken
from twinlens.planning.choose.wanted import ServingWanted
from twinlens.planning.fit.degree import copy_layouts, may_group, pipeline_degrees, tensor_degrees
from twinlens.planning.fit.placement import usable
from twinlens.planning.fit.runtime import runtime_of
from twinlens.planning.fit.serving import Serving, held, most_sequences
from twinlens.planning.prediction.place import layout_of
from twinlens.planning.prediction.serving import Served, closed_loop
from twinlens.planning.prediction.stored import held_format, kept_cache
from twinlens.spec.device import Device
from twinlens.spec.model.shape import DecoderShape


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


@dataclass(frozen=True, slots=True)
class ServingGrid:
    """Rows of what fits: `pair` and `way` are places in the columns; the rest is of each row."""

    pair: Any
    way: Any
    devices: Any
    served: Served
    tokens_per_s: Any
    """Answer tokens of the whole system."""
    needed: Any
    """Bytes on each device, pairs × ways, what does not fit included."""
    room: Any
    """Usable bytes on a device of each pair."""


def serving_ways(shape: DecoderShape, most: int) -> Ways:
    """Every legal layout of at most so many devices."""
    plain = [(tensor, pipeline, 1) for tensor in tensor_degrees(shape, most)
             for pipeline in pipeline_degrees(shape, most // tensor)]  # fmt: skip
    shared = [(tensor, 1, groups) for tensor, groups in copy_layouts(shape, most)]
    rows = [(tensor, pipeline, copies, groups) for tensor, pipeline, groups in (*plain, *shared)
            for copies in range(1, most // (tensor * pipeline * groups) + 1)]  # fmt: skip
    return Ways(*np.array(rows, dtype=np.float64).T)


def serving_grid(wanted: ServingWanted, pairs: Pairs, ways: Ways, allowed: Any, times: Times = Times()) -> ServingGrid:
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
    return ServingGrid(pair, way, ways.devices[way], served, tokens, needed, room)


def serve(wanted: ServingWanted, pairs: Pairs, pair: Any, ways: Ways, way: Any, times: Times = Times()) -> Served:
    """Latency of one copy in each row."""
    layout = layout_of(wanted.engine, ways.tensor[way], ways.pipeline[way], ways.groups[way])
    users = np.ceil(wanted.users / ways.copies[way])
    rates = multiplied(taken(pairs.rates, pair), times)
    fitted, most = pairs.constants(pair), _most(wanted, pairs, pair, ways, way, times)
    return closed_loop(taken(pairs.work, pair), rates, layout, fitted, users, wanted.prompt, wanted.answer, most)


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
