"""Cases as arrays, and the model's answer to each: questions that several rows share are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.prediction.cases import Case
from twinlens.planning.prediction import device_rates, prior
from twinlens.planning.prediction.constant import Constants, values
from twinlens.planning.prediction.fit import fit
from twinlens.planning.prediction.label import serving_labels, training_labels
from twinlens.planning.prediction.place import Layout, Rates
from twinlens.planning.prediction.serving import (
    closed_loop,
    disaggregated,
    open_loop,
    room,
    static_batch_s,
    tokens_per_s,
)
from twinlens.planning.prediction.step_time import decode_step, prefill
from twinlens.planning.prediction.stored import Stored, stored
from twinlens.planning.prediction.training import TrainingLayout, training_step
from twinlens.planning.prediction.work import stacked, work_of
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape

MOST = {"vllm": 1024.0, "trtllm": 2048.0, "sglang": 2048.0}
"""Sequences that an engine decodes at a time by default."""
_BATCHES = (8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0)
_TAIL = 0.8
"""Mean over p99 of the time per output token, where a limit is on the p99."""
TRAINING_KINDS = ("train-rate", "train-step")
_NOISE = {"ttft": 0.3, "static": 0.2}
_OTHERS, _EXPERTS, _DENSE = 0.12, 0.2, 0.08


def noise_of(case: Case) -> float:
    """Relative error at which a row begins to count as an outlier: what repeated measurements of its kind differ by.

    TTFT depends on when requests meet, a static batch on software of 2024, experts on how tokens are routed.
    """
    if case.kind in TRAINING_KINDS:
        return _EXPERTS if shape_of(case).experts else _DENSE
    return _NOISE.get(case.kind, _OTHERS)


def shape_of(case: Case) -> DecoderShape:
    shape = load_model(case.model).shape
    assert isinstance(shape, DecoderShape)
    return shape


def stored_of(case: Case) -> Stored:
    if case.kind in TRAINING_KINDS:
        return stored({"mxfp8": "fp8", "fp16": "bf16"}.get(case.precision, case.precision))
    return stored({"mxfp8": "fp8"}.get(case.precision, case.precision), shape_of(case))


def labels(case: Case) -> tuple[str, ...]:
    shape, card = shape_of(case), case.card
    if case.kind in TRAINING_KINDS:
        return training_labels(
            case.engine,
            device_rates.architecture(card),
            case.precision,
            shape,
            release=str(case.more.get("version", "")),
            adapters=case.layout["frozen"] > 0,
        )
    return serving_labels(
        case.engine,
        card.vendor,
        device_rates.architecture(card),
        stored_of(case).expert_product,
        shape,
        disaggregated="workers" in case.layout,
        scenario=str(case.more.get("scenario", "")),
        release=str(case.more.get("release", "")),
        era=str(case.more.get("era", "")),
    )


def rates_of(case: Case) -> Rates:
    return device_rates.rates_of(case.card, stored_of(case), case.engine)


def misfit(case: Case) -> str:
    """Why the weights have no room on the devices of a case; "" where they have, and in training."""
    if case.kind in TRAINING_KINDS or case.kind == "memory" or "limit" in case.more:
        return ""
    layout, rates = case.layout, rates_of(case)
    degrees = ("tensor", "data", "pipeline", "stages") if "workers" not in layout else ("tensor", "data", "pipeline")
    devices = float(np.prod([layout.get(name, 1.0) for name in degrees]))
    need = float(work_of(shape_of(case), stored_of(case)).weight_bytes)
    if need <= devices * float(rates.memory_bytes) * 0.98:
        return ""
    room_gb = float(rates.memory_bytes) / 1e9
    return (
        f"weights of {need / 1e9:.0f} GB do not fit on {devices:.0f} × {room_gb:.0f} GB: "
        "the precision or the layout is not as stated"
    )


def _layout(case: Case, prefix: str = "") -> Layout:
    names = ("tensor", "data", "pipeline", "expert", "serial")
    return Layout(**{name: case.layout.get(prefix + name, 0.0 if name == "serial" else 1.0) for name in names})


class Serving:
    """Cases of serving. `predict` gives a value per case from logarithms of constants, one row per case."""

    priors, spread = prior.SERVING, prior.SERVING_SPREAD

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = list(cases)
        self.measured = np.array([case.value for case in self.cases])
        self.groups = [labels(case) for case in self.cases]
        self.parts = [
            (_kind(kind), _Part([self.cases[i] for i in rows]), np.array(rows))
            for kind, rows in _by(self.cases).items()
        ]

    def predict(self, logs: np.ndarray) -> np.ndarray:
        out = np.full(len(self.cases), np.nan)
        for kind, part, rows in self.parts:
            out[rows] = kind(part, values(list(self.priors), logs[rows]))
        return np.clip(np.nan_to_num(out, nan=1e9, posinf=1e9), 1e-9, 1e12)


def _by(cases: Sequence[Case]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for i, case in enumerate(cases):
        kind = "disaggregated" if "workers" in case.layout else "open" if "rate" in case.more else case.kind
        kind = "latency" if kind in ("tpot", "ttft", "e2e") else kind
        rows.setdefault(kind, []).append(i)
    return rows


class _Part:
    """Arrays of cases that one function answers; questions that differ only in the metric are one column."""

    def __init__(self, cases: Sequence[Case]) -> None:
        seen: dict[tuple[object, ...], int] = {}
        first: list[int] = []
        back = []
        for i, case in enumerate(cases):
            key = (
                case.model,
                case.card.name,
                case.precision,
                case.engine,
                case.devices,
                tuple(sorted(case.layout.items())),
                case.batch,
                case.prompt,
                case.answer,
                labels(case),
                case.file,
            )
            if key not in seen:
                seen[key] = len(first)
                first.append(i)
            back.append(seen[key])
        self.cases, self.first, self.back = list(cases), np.array(first), np.array(back)
        self.metric = np.array([case.kind for case in cases])
        chosen = [cases[i] for i in first]
        self.work = stacked([work_of(shape_of(case), stored_of(case)) for case in chosen])
        self.rates = stacked([rates_of(case) for case in chosen])
        self.layout = stacked([_layout(case) for case in chosen])
        self.prefill_layout = stacked([_layout(case, "first_") for case in chosen])

        def column(get: object) -> np.ndarray:
            return np.array([get(case) for case in chosen], dtype=float)  # type: ignore[operator]

        self.batch, self.prompt, self.answer = (
            column(lambda c: c.batch),
            column(lambda c: c.prompt),
            column(lambda c: c.answer),
        )
        self.stages = column(lambda c: c.layout.get("stages", 1.0))
        self.most = column(lambda c: MOST.get(c.engine, 1e9))
        self.copies = column(lambda c: c.more.get("copies", 1.0))
        self.workers = column(lambda c: c.layout.get("workers", 1.0))
        self.first_workers = column(lambda c: c.layout.get("first_workers", 1.0))
        self.devices = column(lambda c: c.devices)
        self.limit = column(lambda c: c.more.get("limit") or np.inf)
        self.free = np.array(["limit" in case.more for case in chosen])

    def fitted(self, fitted: object) -> object:
        return type(fitted)(**{name: value[self.first] for name, value in vars(fitted).items()})

    def latencies(self, served: object) -> np.ndarray:
        tpot, ttft = served.tpot_s[self.back], served.ttft_s[self.back]  # type: ignore[attr-defined]
        both = ttft + tpot * (self.answer[self.back] - 1.0)
        return np.where(self.metric == "tpot", tpot, np.where(self.metric == "ttft", ttft, both))


def _latency(part: _Part, v: object) -> np.ndarray:
    v = part.fitted(v)
    users = part.batch / part.copies
    return part.latencies(
        closed_loop(part.work, part.rates, part.layout, v, users, part.prompt, part.answer, part.most)
    )


def _open(part: _Part, v: object) -> np.ndarray:
    return part.latencies(
        open_loop(
            part.work, part.rates, part.layout, part.fitted(v), part.batch / part.copies, part.prompt, part.answer
        )
    )


def _disaggregated(part: _Part, v: object) -> np.ndarray:
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
    )
    return part.latencies(served)


def _static(part: _Part, v: object) -> np.ndarray:
    v = part.fitted(v)
    rates = replace(part.rates, memory_bytes=part.rates.memory_bytes * part.stages)
    time = static_batch_s(part.work, rates, part.layout, v, part.batch, part.prompt, part.answer)
    return (time + (part.stages - 1.0) * part.answer * v.hop_s)[part.back]  # type: ignore[attr-defined]


def _decode_rate(part: _Part, v: object) -> np.ndarray:
    v = part.fitted(v)
    step = decode_step(part.work, part.rates, part.layout, v, 1.0, part.answer / 2.0).total_s
    return (1.0 / (step + (part.stages - 1.0) * v.hop_s))[part.back]  # type: ignore[attr-defined]


def _prefill_rate(part: _Part, v: object) -> np.ndarray:
    """llama.cpp reads prompts in chunks of 512, and devices in a row work on different chunks."""
    v = part.fitted(v)
    chunk = np.minimum(512.0, part.prompt)
    each = prefill(part.work, part.rates, part.layout, v, chunk, part.prompt).total_s
    many = part.prompt / chunk
    return (part.prompt / (each * (many - 1.0 + part.stages) / part.stages))[part.back]


def _throughput(part: _Part, v: object) -> np.ndarray:
    """The best batch, and the best tensor degree where none is stated, within a limit on the time per token."""
    v, best = part.fitted(v), np.zeros(len(part.first))
    for degree in (0.0, 1.0, 2.0, 4.0, 8.0):
        mine = (part.free & (part.devices % max(degree, 1.0) == 0) & (degree > 0)) | (~part.free & (degree == 0))
        if not mine.any():
            continue
        layout = replace(part.layout, tensor=np.where(part.free, max(degree, 1.0), part.layout.tensor))
        copies = np.where(part.free, part.devices / max(degree, 1.0), part.copies)
        full = np.minimum(room(part.work, part.rates, layout, part.prompt + part.answer), part.most)
        full = np.minimum(full, part.batch)
        for size in _BATCHES:
            batch = np.minimum(size, full)
            rate, tpot = tokens_per_s(
                part.work, part.rates, layout, v, np.maximum(batch, 1.0), part.prompt, part.answer
            )
            good = mine & (batch >= 1.0) & (tpot <= part.limit * _TAIL)
            best = np.where(good, np.maximum(best, rate * copies), best)
    return best[part.back]


def _kind(name: str) -> object:
    return {
        "latency": _latency,
        "open": _open,
        "disaggregated": _disaggregated,
        "static": _static,
        "decode-rate": _decode_rate,
        "prefill-rate": _prefill_rate,
        "throughput": _throughput,
    }[name]


class Training:
    """Cases of training. Rates are fitted and predicted as seconds per step, and told in the row's own unit."""

    priors, spread = prior.TRAINING, prior.TRAINING_SPREAD

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = list(cases)
        self.measured = np.array([case.value for case in self.cases])
        self.groups = [labels(case) for case in self.cases]
        self.work = stacked([work_of(shape_of(case), stored_of(case)) for case in self.cases])
        self.rates = stacked([rates_of(case) for case in self.cases])
        self.layout = stacked([TrainingLayout(**case.layout) for case in self.cases])
        self.batch, self.length, self.micro = (
            np.array([getattr(case, name) for case in self.cases]) for name in ("batch", "prompt", "answer")
        )
        self.devices = np.array([case.devices for case in self.cases], dtype=float)
        self.is_rate = np.array([case.kind == "train-rate" for case in self.cases])

    def predict(self, logs: np.ndarray) -> np.ndarray:
        fitted = values(list(self.priors), logs)
        step = training_step(self.work, self.rates, self.layout, fitted, self.batch, self.micro, self.length).total_s
        return np.where(self.is_rate, self.batch * self.length / (step * self.devices), step)


def fitted(questions: Serving | Training, weights: np.ndarray | None = None) -> Constants:
    """Constants fitted to the measured values of these questions."""
    return fit(
        questions.predict,
        questions.measured,
        questions.groups,
        questions.priors,
        spread=questions.spread,
        noise=np.array([noise_of(case) for case in questions.cases]),
        weights=weights,
    )


def answers(questions: Serving | Training, constants: Constants) -> np.ndarray:
    """Predicted values, in the units of the rows."""
    return questions.predict(constants.logs(questions.groups, list(questions.priors)))
