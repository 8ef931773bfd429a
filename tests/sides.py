"""Sides of comparisons written by hand: what was asked, what ran, and what each run came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from material import inference, spec_of, training
from twinlens.comparison.side import Side
from twinlens.record.estimate import Estimate, Spread
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.record.sections import Sections
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.steady.segment import VALIDITY
from twinlens.stats.summary.group import Machine, Summary, Verdict, group
from twinlens.stats.summary.point import quantile_of

STACK = {
    "host.cpu.model": "EPYC",
    "accelerator.product": "EPYC",
    "host.kernel": "6.1",
    "software.driver.version": "550",
    "software.framework.version": "2.13",
    "software.runtime.name": "torch",
    "model.weights_hash": "aa",
    "precision.weights": "fp32",
}


def side(
    name: str,
    values: Mapping[str, Sequence[float]] | None = None,
    *,
    lens: str = "inference",
    asked: Sequence[str] = (),
    stack: Mapping[str, Any] | None = None,
    findings: Sequence[Finding] = (),
    state: Any = "finished",
    folder: str = "",
    label: str = "flat",
    **parts: Any,
) -> Side:
    """Runs with these values of each metric, one a run. `asked`: settings of the spec; `stack`: facts beside STACK."""
    values = values or {"output_tokens_per_s" if lens == "inference" else "training_tokens_per_s": (100.0,)}
    spec = spec_of((inference if lens == "inference" else training)("fake", **parts), *asked)
    facts = {key: observed(value, "a test") for key, value in (STACK | dict(stack or {})).items() if value is not None}
    count = len(next(iter(values.values())))
    runs = [_run(f"{name}-{repeat}", spec, repeat, facts, state) for repeat in range(count)]
    reason = Finding("quiet", "notes")
    summaries = [
        Summary(
            run=run.id, lens=run.lens, state=state, model=spec.workload.model, executor="fake",
            point={"precision": spec.point.precision}, repeat=repeat, rows=9,
            verdict=Verdict(label, VALIDITY.get(label, "not valid"), reason, 0, 9, 0.0, 1.0),
            metrics={key: _estimate(key, each[repeat]) for key, each in values.items()}, identity=name,
            findings=tuple(findings), machine=Machine(str(facts["host.cpu.model"].value), "m", "s", "x"),
        )
        for repeat, run in enumerate(runs)
    ]  # fmt: skip
    (one,) = group(summaries)
    return Side(name, one, tuple(runs), folder)


def _estimate(metric: str, value: float) -> Estimate:
    q, spread = quantile_of(metric), None
    if q is not None:  # a thousand requests, all within a thousandth of the quantile
        spread = Spread(1000, (1, round(1000 * q), 1000), (0.999 * value, value, 1.001 * value), 1000.0)
    return Estimate(value, METRICS[metric].unit, "by hand", "measured", spread=spread)


def _run(id: str, spec: Any, repeat: int, facts: Mapping[str, Any], state: Any) -> Run:
    return Run(
        folder=Path(id), id=id, state=state, spec=spec.model_copy(update={"repeat": repeat}),
        facts=Facts(ExecutorRecord(facts)), started_utc="", ended_utc=None, error=None, version="0",
        sections=Sections(),
    )  # fmt: skip
