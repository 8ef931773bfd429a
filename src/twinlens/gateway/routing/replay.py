"""A measured run through the predictor, as if the gateway had sent it: how far each prediction was off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from twinlens.gateway.routing.load import Load
from twinlens.gateway.routing.predict import Predictor
from twinlens.record.request import Requests
from twinlens.record.run import Run

_MOST_ROWS = 2000
_BEGIN, _FIRST, _END = 2, 0, 1
"""Kinds of an event; of those of one moment, what is over comes first."""


@dataclass(frozen=True, slots=True)
class Misses:
    """Logarithms of true over predicted, in order of time."""

    ttft: tuple[float, ...] = ()
    tpot: tuple[float, ...] = ()


def misses(known: Predictor, runs: Sequence[Run], answer_tokens: float) -> Misses:
    """Of the last requests of each run, those alone whose prompts were counted and which ended well."""
    ttft: list[float] = []
    tpot: list[float] = []
    for run in runs:
        for kind, log in _of(known, run.requests, answer_tokens):
            (ttft if kind == _FIRST else tpot).append(log)
    return Misses(tuple(ttft), tuple(tpot))


def _of(known: Predictor, rows: Requests, answer_tokens: float) -> Iterator[tuple[int, float]]:
    prompts = np.asarray(rows.input_tokens, dtype=float)
    first_ns, last_ns = rows.first_chunk_ns(), rows.last_chunk_ns()
    events = [
        (at, kind, place)
        for place in np.flatnonzero(rows.ok & np.isfinite(prompts) & np.isfinite(first_ns)).tolist()[-_MOST_ROWS:]
        for at, kind in ((int(rows.sent_ns[place]), _BEGIN), (int(first_ns[place]), _FIRST),
                         (int(rows.end_ns[place]), _END))
    ]  # fmt: skip
    load, said = Load(answer_tokens=max(1.0, answer_tokens)), {}
    for at, kind, place in sorted(events):
        prompt = float(prompts[place])
        if kind == _BEGIN:
            asked = rows.asked_tokens[place]
            answer = min(load.answer_tokens, asked) if np.isfinite(asked) else load.answer_tokens
            said[place] = known.both_s(load, at, prompt, answer)
            load.begin(prompt, at)
        elif kind == _FIRST:
            load.first(prompt, at)
            yield from _log(kind, (at - int(rows.sent_ns[place])) / 1e9, said[place][0])
        else:
            load.end(prompt, int(first_ns[place]))
            gaps = int(rows.output_tokens[place]) - 1
            if gaps > 0:
                yield from _log(kind, (last_ns[place] - first_ns[place]) / 1e9 / gaps, said[place][1])


def _log(kind: int, true: float, predicted: float) -> Iterator[tuple[int, float]]:
    if true > 0 and predicted > 0:
        yield kind, math.log(true / predicted)
