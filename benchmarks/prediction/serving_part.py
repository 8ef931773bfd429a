"""Arrays of serving cases: questions that several rows share are computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from benchmarks.prediction.case import Case
from benchmarks.prediction.facts import labels, rates_of, shape_of, stored_of
from twinlens.planning.prediction.constant import Values
from twinlens.planning.prediction.place import Layout
from twinlens.planning.prediction.serving import Served
from twinlens.planning.prediction.work import stacked, work_of

MOST = {"vllm": 1024.0, "trtllm": 2048.0, "sglang": 2048.0}
"""Sequences that an engine decodes at a time by default."""


class Part:
    """Arrays of cases that one function answers; questions that differ only in the metric are one column."""

    def __init__(self, cases: Sequence[Case]) -> None:
        keys = [_question(case) for case in cases]
        places = {key: i for i, key in reversed([*enumerate(keys)])}
        seen = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        first, back = [places[key] for key in seen], np.array([seen[key] for key in keys])
        self.first, self.back = np.array(first), back
        self.metric = np.array([case.kind for case in cases])
        chosen = [cases[i] for i in first]
        self.work = stacked([work_of(shape_of(case), stored_of(case)) for case in chosen])
        self.rates = stacked([rates_of(case) for case in chosen])
        self.layout = stacked([_layout(case) for case in chosen])
        self.prefill_layout = stacked([_layout(case, "first_") for case in chosen])

        def column(get: Callable[[Case], Any]) -> np.ndarray:
            return np.array([get(case) for case in chosen], dtype=float)

        self.batch, self.prompt, self.answer = (column(attrgetter(name)) for name in ("batch", "prompt", "answer"))
        self.stages = column(lambda c: c.layout.get("stages", 1.0))
        self.most = column(lambda c: MOST.get(c.engine, 1e9))
        self.copies = column(lambda c: c.more.get("copies", 1.0))
        self.workers = column(lambda c: c.layout.get("workers", 1.0))
        self.first_workers = column(lambda c: c.layout.get("first_workers", 1.0))
        self.devices = column(lambda c: c.devices)
        self.limit = column(lambda c: c.more.get("limit") or np.inf)
        self.free = np.array(["limit" in case.more for case in chosen])

    def fitted(self, fitted: Values) -> Values:
        """Constants of each question once."""
        return type(fitted)(**{name: value[self.first] for name, value in vars(fitted).items()})

    def latencies(self, served: Served) -> np.ndarray:
        """Seconds of each case by its metric: TPOT, TTFT, or both as the latency of a whole request."""
        tpot, ttft = np.asarray(served.tpot_s)[self.back], np.asarray(served.ttft_s)[self.back]
        both = ttft + tpot * (self.answer[self.back] - 1.0)
        return np.where(self.metric == "tpot", tpot, np.where(self.metric == "ttft", ttft, both))


def _question(case: Case) -> tuple[object, ...]:
    """All of a case that its answer depends on, but the metric."""
    layout = tuple(sorted(case.layout.items()))
    asked = (case.model, case.card.name, case.precision, case.engine, case.devices, layout)
    return (*asked, case.batch, case.prompt, case.answer, labels(case), case.file)


def _layout(case: Case, prefix: str = "") -> Layout:
    names = ("tensor", "data", "pipeline", "expert", "serial")
    return Layout(**{name: case.layout.get(prefix + name, 0.0 if name == "serial" else 1.0) for name in names})
