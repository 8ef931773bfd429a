"""Serving on every pair in every layout: memory, then latency and throughput, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlens.planning.choose.pairs import Pairs, Times, multiplied, taken
from twinlens.planning.choose.wanted import ServingWanted
from twinlens.planning.fit.degree import pipeline_degrees, tensor_degrees
from twinlens.planning.fit.placement import usable
from twinlens.planning.fit.runtime import VLLM
from twinlens.planning.fit.weights import weights
from twinlens.planning.prediction.place import Layout
from twinlens.planning.prediction.serving import Served, closed_loop
from twinlens.planning.prediction.stored import stored, weights_of
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.memory import kv_bytes
from twinlens.theory.serving import kv_share, prefill_activation_bytes


@dataclass(frozen=True, slots=True)
class Ways:
    """Layouts: `copies` of a model, each on tensor · pipeline devices."""

    tensor: Any
    pipeline: Any
    copies: Any

    @property
    def devices(self) -> Any:
        return self.tensor * self.pipeline * self.copies


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

    @property
    def seconds(self) -> Any:
        """Between two tokens of one user."""
        return self.served.tpot_s


def serving_ways(shape: DecoderShape, most: int) -> Ways:
    """Every legal layout of at most so many devices."""
    rows = [
        (tensor, pipeline, copies)
        for tensor in tensor_degrees(shape, most)
        for pipeline in pipeline_degrees(shape, most // tensor)
        for copies in range(1, most // (tensor * pipeline) + 1)
    ]
    tensor, pipeline, copies = np.array(rows, dtype=np.float64).T
    return Ways(tensor, pipeline, copies)


def serving_grid(wanted: ServingWanted, pairs: Pairs, ways: Ways, allowed: Any, times: Times = Times()) -> ServingGrid:
    """Everything that fits. `allowed`: pairs × ways, False where the site forbids it."""
    users = np.ceil(wanted.users / ways.copies)
    needed = _needed(wanted, pairs, ways, users)
    room = np.array([usable(each, VLLM.memory_share).number for each in pairs.devices])
    room = times.memory * np.minimum(room, pairs.rates.memory_bytes)
    pair, way = np.nonzero(allowed & (needed <= room[:, None]))
    served = serve(wanted, pairs, pair, ways, way, times)
    tokens = served.requests_per_s * wanted.answer * ways.copies[way]
    return ServingGrid(pair, way, ways.devices[way], served, tokens, needed, room)


def serve(wanted: ServingWanted, pairs: Pairs, pair: Any, ways: Ways, way: Any, times: Times = Times()) -> Served:
    """Latency of one copy in each row."""
    layout = Layout(ways.tensor[way], np.ones(len(way)), ways.pipeline[way], np.ones(len(way)))
    users = np.ceil(wanted.users / ways.copies[way])
    rates = multiplied(taken(pairs.rates, pair), times)
    fitted = pairs.constants(pair)
    return closed_loop(taken(pairs.work, pair), rates, layout, fitted, users, wanted.prompt, wanted.answer)


def _needed(wanted: ServingWanted, pairs: Pairs, ways: Ways, users: Any) -> Any:
    """Bytes on each device, as `plan fit` sums them; a pipeline divides weights and cache by its stages."""
    kept = {name: _state(wanted, name, ways, users) for name in dict.fromkeys(pairs.precisions)}
    chunk = np.maximum(float(VLLM.chunk_tokens), users)
    widest = prefill_activation_bytes(wanted.shape, chunk, 2.0, ways.tensor)
    own = VLLM.own_bytes + np.where(ways.tensor * ways.pipeline > 1, VLLM.group_bytes, 0.0)
    each = {}
    for most in {_most(device) for device in pairs.devices}:
        scores = np.maximum(users, most) * wanted.shape.vocab * VLLM.score_bytes
        each[most] = np.maximum(widest, scores) + own
    rows = [kept[name] + each[_most(device)] for device, name in zip(pairs.devices, pairs.precisions, strict=True)]
    return np.array(rows)


def _most(device: Any) -> int:
    return VLLM.most_sequences(float(device.memory_visible_bytes or device.memory_bytes))


def _state(wanted: ServingWanted, precision: str, ways: Ways, users: Any) -> Any:
    """Weights and cache on each device of each layout."""
    held = weights(wanted.subject, weights_of(precision), 1, VLLM.expert_block).number
    element = stored(precision, wanted.shape).kv_bytes
    one = float(kv_bytes(wanted.shape, wanted.prompt + wanted.answer, element, block=VLLM.block))
    return (held / ways.tensor + users * one * kv_share(wanted.shape, ways.tensor)) / ways.pipeline
