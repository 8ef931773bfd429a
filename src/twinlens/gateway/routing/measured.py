"""Measured facts of a backend: its law, capacity, joules, and the executor that it was measured on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinlens.api.simulating.basis import learnt, runs_of
from twinlens.errors import BadInput
from twinlens.gateway.routing.predict import Predictor, predictor
from twinlens.gateway.routing.replay import Misses, misses
from twinlens.measurement.summary_file import summary_of
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.run import Run
from twinlens.simulation.fit.learn import rules_of
from twinlens.simulation.points.basis import Basis
from twinlens.simulation.rules import Rules
from twinlens.stats.estimator.quantile import quantile
from twinlens.units import SECONDS

CODE, SEVERAL = "TL276", "TL277"
_SLO_SHARE = "p90"
Reach = dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Point:
    """The operating point of the highest output rate within the SLO: what cost and joules of a token are taken at.

    `joules_per_token`: with `joules_bounds`, None where no counter told it, as `no_joules` says. `within`: in words.
    """

    run: str
    output_tokens_per_s: float
    tokens_bounds: tuple[float, float] | None
    within: str
    joules_per_token: float | None = None
    joules_bounds: tuple[float, float] | None = None
    no_joules: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The operating points of one server, from measured runs of it.

    `basis`: its law, with draws and reach; None where the runs teach none, as `no_law` says: then nothing is predicted.
    `tails_s`: p50, p90, p95 and p99 of TTFT over all runs, without intervals where too few requests give one; failures
    are not among them. `point` is None with the reason `no_point`. `record`: the executor as the last run observed it,
    `executor` its hash, `weights` that of its weights, "" where nobody knew it. `misses`: how far the law was off on
    the very runs that it was learnt from.
    """

    runs: tuple[str, ...]
    basis: Basis | None = None
    no_law: str = ""
    rules: Rules = field(default_factory=Rules)
    tails_s: dict[str, float] = field(default_factory=dict)
    answer_tokens: float = 0.0
    prompt_tokens: float = 0.0
    point: Point | None = None
    no_point: str = ""
    record: ExecutorRecord | None = None
    executor: str = ""
    weights: str = ""
    kind: str = ""
    model: str = ""
    misses: Misses = field(default_factory=Misses)
    last: Run | None = None

    def predictor(self) -> Predictor | None:
        if self.basis is None:
            return None
        mean = self.prompt_tokens + self.answer_tokens / 2
        return predictor(self.basis.law, self.basis.rules, mean)

    @property
    def reach(self) -> Reach:
        return dict(self.basis.reach) if self.basis else {}


def measured_of(path: str | Path, slo_ttft_s: float | None = None, slo_tpot_s: float | None = None) -> Measured:
    """What the runs of a folder say of their server: a run, a study, a pack; FOLDER@rate_per_s=4: one point of it.

    Raises BadInput (TL276) for runs that are simulated, of training, or without one answered request, (TL277) for runs
    of several servers, and what reading them raises.
    """
    runs = [run for run in runs_of(str(path)) if run.lens == "inference"]
    if not runs:
        raise BadInput(f"{path} holds no run of a server; name the folder of a measured one", code=CODE)
    if fake := next((run for run in runs if run.place == "simulated"), None):
        raise BadInput(f"{fake.id} is simulated, and a backend is known by what was measured of it", code=CODE)
    served = [run for run in runs if run.is_finished and run.requests.ok.any()]
    if not served:
        raise BadInput(f"{path} holds no run that ended with an answered request", code=CODE)
    _refuse_several(path, served)
    basis, why = _law(served)
    prompts, answers, waits = _tokens(served)
    point, no_point = _point(served, slo_ttft_s, slo_tpot_s)
    last = served[-1]
    record = last.facts.executor if last.facts else None
    found = Measured(
        tuple(run.id for run in served), basis, why, basis.rules if basis else rules_of(last)[0],
        _tails(waits), answers, prompts, point, no_point, record, record.hash() if record else "",
        str((record and record.value("model.weights_hash")) or ""), last.spec.executor.kind,
        str((record and record.value("model.id")) or last.spec.workload.model), last=last,
    )  # fmt: skip
    known = found.predictor()
    logs = misses(known, served, answers) if known else Misses()
    for run in served:
        run.forget_rows()
    return replace(found, misses=logs)


def _refuse_several(path: str | Path, runs: Sequence[Run]) -> None:
    """One backend is one setting: of several, no tail and no rate is anybody's."""
    asked = {(run.spec.workload.model, run.spec.point.precision, run.spec.executor.kind,
              json.dumps({name: value for name, value in run.spec.executor.options.items() if name != "url"},
                         sort_keys=True, default=str)) for run in runs}  # fmt: skip
    if len(asked) > 1:
        raise BadInput(
            f"{path} holds runs of {len(asked)} settings of servers, and a backend has one: name one run, or one of "
            "them by its settings (FOLDER@precision=bf16)", code=SEVERAL)  # fmt: skip


def _law(runs: Sequence[Run]) -> tuple[Basis | None, str]:
    try:
        return learnt(runs), ""
    except BadInput as wrong:
        return None, str(wrong)


def _tokens(runs: Sequence[Run]) -> tuple[float, float, np.ndarray]:
    """Tokens of a prompt and of an answer on average, and TTFT in seconds from sending. Shape of it: (answers,)."""
    prompts, answers, waits = [], [], []
    for run in runs:
        rows = run.requests
        ok = rows.ok
        prompts.append(np.asarray(rows.input_tokens, dtype=float)[ok])
        answers.append(rows.output_tokens[ok])
        waits.append(((rows.first_chunk_ns() - rows.sent_ns) / 1e9)[ok])
    prompt, wait = np.concatenate(prompts), np.concatenate(waits)
    known = prompt[np.isfinite(prompt)]
    mean = float(known.mean()) if known.size else 0.0
    return mean, float(np.concatenate(answers).mean()), wait[np.isfinite(wait)]


def _tails(waits: np.ndarray) -> dict[str, float]:
    """Quantiles of TTFT that were seen; of too few requests, those that they can show."""
    found: dict[str, float] = {}
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        if waits.size:
            told = quantile(waits, share, unit=SECONDS)
            found[name] = float(np.quantile(waits, share, method="higher")) if told.value is None else told.value
    return found


def _point(runs: Sequence[Run], ttft_s: float | None, tpot_s: float | None) -> tuple[Point | None, str]:
    targets = [(id, most) for id, most in ((f"ttft_s_{_SLO_SHARE}", ttft_s), (f"tpot_s_{_SLO_SHARE}", tpot_s)) if most]
    best: tuple[float, Run, Any] | None = None
    refused = "no run shows a rate of output tokens"
    for run in runs:
        metrics = summary_of(run).metrics
        rate = metrics.get("output_tokens_per_s")
        if rate is None or rate.value is None:
            continue
        beyond = next((id for id, most in targets if not _within(metrics.get(id), most)), None)
        if beyond is not None:
            refused = f"no run shows {beyond} within the SLO"
        elif best is None or rate.value > best[0]:
            best = (rate.value, run, metrics)
    if best is None:
        return None, refused
    value, run, metrics = best
    rate, joules = metrics["output_tokens_per_s"], metrics.get("energy_per_output_token_j")
    within = " and ".join(f"{id} ≤ {most:g} s" for id, most in targets) or "no SLO was set"
    has = joules is not None and joules.value is not None
    return Point(
        run.id, value, _bounds(rate), within, joules.value if has else None, _bounds(joules) if has else None,
        "" if has else (joules.reason if joules is not None else "no counter of energy was read") or "",
    ), ""  # fmt: skip


def _within(told: Any, most: float) -> bool:
    return told is not None and told.value is not None and told.value <= most


def _bounds(told: Any) -> tuple[float, float] | None:
    return None if told.low is None or told.high is None else (told.low, told.high)
