"""Cases of serving as arrays, and the model's answer to each kind of question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.prediction.case import Case
from benchmarks.prediction.facts import labels
from benchmarks.prediction.serving_part import Part
from twinlens.planning.prediction import constant
from twinlens.planning.prediction.constant import values
from twinlens.planning.prediction.place import Layout, Rates
from twinlens.planning.prediction.serving import (
    closed_loop,
    disaggregated,
    open_loop,
    static_batch_s,
    tokens_per_s,
)
from twinlens.planning.prediction.step_time import decode_step, prefill

_BATCHES = (8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0)
_MEMORY_SHARE, _BESIDE_BYTES = 0.9, 2e9
"""Of a device's memory what servers take, and what they need of it beside weights and cache: without a source."""
_TAIL = 0.8
"""Mean over p99 of the time per output token, where a limit is on the p99."""


class Serving:
    """Cases of serving. `predict` gives a value per case from logarithms of constants, one row per case."""

    priors, spread = constant.SERVING, constant.SERVING_SPREAD

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = list(cases)
        self.measured = np.array([case.value for case in self.cases])
        self.groups = [labels(case) for case in self.cases]
        self.parts = [
            (_ANSWERS[kind], Part([self.cases[i] for i in rows]), np.array(rows))
            for kind, rows in _by(self.cases).items()
        ]

    def predict(self, logs: np.ndarray) -> np.ndarray:
        out = np.full(len(self.cases), np.nan)
        for answer, part, rows in self.parts:
            out[rows] = answer(part, values(list(self.priors), logs[rows]))
        return np.clip(np.nan_to_num(out, nan=1e9, posinf=1e9), 1e-9, 1e12)


def _by(cases: Sequence[Case]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for i, case in enumerate(cases):
        kind = "disaggregated" if "workers" in case.layout else "open" if "rate" in case.more else case.kind
        kind = "latency" if kind in ("tpot", "ttft", "e2e") else kind
        rows.setdefault(kind, []).append(i)
    return rows


def room(part: Part, rates: Rates, layout: Layout) -> Any:
    """Sequences whose cache fits beside the weights, over the whole layout, on servers of any maker.

    Rows are of many engines and say nothing of their buffers; plans are of vLLM or llama.cpp, and count theirs.
    """
    work, context = part.work, part.prompt + part.answer
    holders = layout.tensor * layout.data * layout.pipeline
    own = (work.dense_bytes + 2.0 * work.head_bytes) / (layout.tensor * layout.pipeline) + work.expert_bytes / holders
    free = np.maximum(rates.memory_bytes * _MEMORY_SHARE - own - _BESIDE_BYTES, 0.0)
    return free / (work.kv_sequence_bytes(context) * work.kv_share(layout.tensor) / layout.pipeline) * layout.data


def without_room(cases: Sequence[Case]) -> set[int]:
    """Places of cases whose workers that decode or that prefill, apart, have no room for one sequence."""
    apart = [i for i, case in enumerate(cases) if "workers" in case.layout]
    if not apart:
        return set()
    part = Part([cases[i] for i in apart])
    least = np.minimum(*(room(part, part.rates, each) for each in (part.layout, part.prefill_layout)))
    return {i for i, many in zip(apart, least[part.back], strict=True) if many < 1}


def _latency(part: Part, v: Any) -> np.ndarray:
    v = part.fitted(v)
    users = part.batch / part.copies
    return part.latencies(
        closed_loop(
            part.work,
            part.rates,
            part.layout,
            v,
            users,
            part.prompt,
            part.answer,
            np.minimum(room(part, part.rates, part.layout), part.most),
        )
    )


def _open(part: Part, v: Any) -> np.ndarray:
    return part.latencies(
        open_loop(
            part.work,
            part.rates,
            part.layout,
            part.fitted(v),
            part.batch / part.copies,
            part.prompt,
            part.answer,
            room(part, part.rates, part.layout),
        )
    )


def _disaggregated(part: Part, v: Any) -> np.ndarray:
    served = disaggregated(
        part.work,
        part.rates,
        part.prefill_layout,
        part.first_workers,
        part.layout,
        part.workers,
        part.fitted(v),
        part.batch,
        part.prompt,
        part.answer,
        room(part, part.rates, part.layout),
    )
    return part.latencies(served)


def _static(part: Part, v: Any) -> np.ndarray:
    v = part.fitted(v)
    rates = replace(part.rates, memory_bytes=part.rates.memory_bytes * part.stages)
    time = static_batch_s(
        part.work, rates, part.layout, v, part.batch, part.prompt, part.answer, room(part, rates, part.layout)
    )
    return (time + (part.stages - 1.0) * part.answer * v.hop_s)[part.back]


def _decode_rate(part: Part, v: Any) -> np.ndarray:
    v = part.fitted(v)
    step = decode_step(part.work, part.rates, part.layout, v, 1.0, part.answer / 2.0).total_s
    return (1.0 / (step + (part.stages - 1.0) * v.hop_s))[part.back]


def _prefill_rate(part: Part, v: Any) -> np.ndarray:
    """llama.cpp reads prompts in chunks of 512, and devices in a row work on different chunks."""
    v = part.fitted(v)
    chunk = np.minimum(512.0, part.prompt)
    each = prefill(part.work, part.rates, part.layout, v, chunk, part.prompt).total_s
    many = part.prompt / chunk
    return (part.prompt / (each * (many - 1.0 + part.stages) / part.stages))[part.back]


def _throughput(part: Part, v: Any) -> np.ndarray:
    """The best batch, and the best tensor degree where none is stated, within a limit on the time per token."""
    v, best = part.fitted(v), np.zeros(len(part.first))
    for degree in (0.0, 1.0, 2.0, 4.0, 8.0):
        mine = (part.free & (part.devices % max(degree, 1.0) == 0) & (degree > 0)) | (~part.free & (degree == 0))
        if not mine.any():
            continue
        layout = replace(part.layout, tensor=np.where(part.free, max(degree, 1.0), part.layout.tensor))
        copies = np.where(part.free, part.devices / max(degree, 1.0), part.copies)
        full = np.minimum(room(part, part.rates, layout), part.most)
        full = np.minimum(full, part.batch)
        for size in _BATCHES:
            batch = np.minimum(size, full)
            rate, tpot = tokens_per_s(
                part.work, part.rates, layout, v, np.maximum(batch, 1.0), part.prompt, part.answer
            )
            good = mine & (batch >= 1.0) & (tpot <= part.limit * _TAIL)
            best = np.where(good, np.maximum(best, rate * copies), best)
    return best[part.back]


_ANSWERS: dict[str, Callable[[Part, Any], np.ndarray]] = {
    "latency": _latency,
    "open": _open,
    "disaggregated": _disaggregated,
    "static": _static,
    "decode-rate": _decode_rate,
    "prefill-rate": _prefill_rate,
    "throughput": _throughput,
}
