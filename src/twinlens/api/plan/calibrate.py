"""The verb that moves the shipped constants to runs of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinlens.api.plan.asked import device_of
from twinlens.api.runs import material_of, read
from twinlens.diagnosis.asked import shape_of
from twinlens.errors import BadInput
from twinlens.planning.prediction.answer import serving_answer
from twinlens.planning.prediction.calibrate import Observation, calibrated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.shipped import Calibrated, calibrated_from, plain, shipped
from twinlens.planning.prediction.stored import STORED
from twinlens.record.run import Run
from twinlens.spec.catalogue import catalogue_of
from twinlens.spec.device import Device
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.catalogue_folder import catalogue_folder
from twinlens.version import __version__


@dataclass(frozen=True, slots=True)
class Compared:
    """One measured latency of a run beside what the public and the own constants say. Seconds."""

    run: str
    metric: str
    measured_s: float
    public_s: float
    own_s: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants of one's own, and how near they come to the runs that made them. `left_out`: runs, and why."""

    known: Calibrated
    compared: tuple[Compared, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        rows = [{"run": c.run, "metric": c.metric, "measured_s": c.measured_s, "public_s": c.public_s, "own_s": c.own_s}
                for c in self.compared]  # fmt: skip
        left = [{"run": run, "why": why} for run, why in self.left_out]
        return {"schema": 1, "twinlens": __version__, "serving": plain(self.known), "compared": rows, "left_out": left}

    def write(self, path: str | Path) -> None:
        """A file for `tl.plan.constants`."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")


def calibrate(
    *runs: str | Path | Run,
    device: str,
    precision: str | None = None,
    tensor: int = 1,
    engine: str | None = None,
    catalogue: str | Path | None = None,
) -> Calibration:
    """Constants moved to served runs on `device`: median TTFT and TPOT of each, at its rate or its users.

    `precision` of the weights, where the runs do not say. Raises BadInput for an unknown device or precision, and where
    no run is of use.
    """
    card, _ = device_of(device, catalogue_of(catalogue_folder(catalogue)))
    if precision is not None and precision not in STORED:
        raise BadInput(f"unknown precision {precision!r}; predictions know {', '.join(STORED)}")
    observations, left_out = observed(runs, card, precision, tensor, engine)
    known = calibrated([each for _, each in observations], today=datetime.now(UTC).date())
    return Calibration(known, tuple(compared(observations, known)), tuple(left_out))


def observed(
    runs: Iterable[str | Path | Run], card: Device, precision: str | None, tensor: int, engine: str | None
) -> tuple[list[tuple[str, Observation]], list[tuple[str, str]]]:
    """Runs that answer a question of predictions, by name, and those left out with why.

    Raises BadInput where none does.
    """
    observations: list[tuple[str, Observation]] = []
    left_out: list[tuple[str, str]] = []
    for run, summary in material_of(_runs(runs)):
        try:
            question = _question(run, card, precision, tensor, engine)
        except BadInput as why:
            left_out.append((run.id, str(why)))
            continue
        values = {name: each.value for name, each in summary.metrics.items()}
        measured = Observation(question, values.get("tpot_s_p50"), values.get("ttft_s_p50"))
        if measured.tpot_s is None and measured.ttft_s is None:
            left_out.append((run.id, "has neither a TPOT nor a TTFT"))
        else:
            observations.append((run.id, measured))
    if not observations:
        reasons = "; ".join(f"{name} {why}" for name, why in left_out[:3])
        raise BadInput(f"none of these runs can calibrate: {reasons or 'there are none'}")
    return observations, left_out


def constants(path: str | Path) -> Calibrated:
    """Constants that `Calibration.write` wrote. Raises BadInput for another file."""
    try:
        return calibrated_from(json.loads(Path(path).read_text(encoding="utf-8"))["serving"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise BadInput(f"{Path(path).name} holds no constants of `plan calibrate`: {wrong}") from None


def _runs(runs: Iterable[str | Path | Run]) -> list[Run]:
    return [own for each in runs for own in ([each] if isinstance(each, Run) else read(each))]


def _question(run: Run, card: Any, precision: str | None, tensor: int, engine: str | None) -> ServingQuestion:
    workload, point, shape = run.spec.workload, run.spec.point, shape_of(run)
    if not isinstance(workload, InferenceWorkload):
        raise BadInput("is a run of training, and only constants of serving are moved")
    if shape is None:
        raise BadInput("is of a model that is no decoder here")
    if point.rate_per_s is None and point.concurrency is None:
        raise BadInput("has neither a rate nor users")
    kind = run.spec.executor.kind
    return ServingQuestion(
        model=workload.model,
        shape=shape,
        device=card,
        precision=precision or (point.precision if point.precision in STORED else "bf16"),
        prompt=_mean(workload.input_tokens),
        answer=_mean(workload.output_tokens),
        users=None if point.rate_per_s is not None else point.concurrency,
        requests_per_s=point.rate_per_s,
        tensor=tensor,
        engine=engine or {"tensorrt-llm": "trtllm", "llama-cpp": "llama.cpp"}.get(kind, kind),
    )


def _mean(lengths: Any) -> float:
    """Mean length of a law; the middle of a range."""
    for name in ("value", "mean"):
        if hasattr(lengths, name):
            return float(getattr(lengths, name))
    if hasattr(lengths, "values"):
        counts = lengths.counts or (1,) * len(lengths.values)
        return float(sum(v * c for v, c in zip(lengths.values, counts, strict=True)) / sum(counts))
    return (float(lengths.min) + float(lengths.max)) / 2.0


def compared(observations: Iterable[tuple[str, Observation]], own: Calibrated) -> Iterable[Compared]:
    """What was measured, what the public constants say, and what `own` say."""
    public = shipped()["serving"]
    for name, seen in observations:
        before, after = serving_answer(seen.question, public), serving_answer(seen.question, own)
        if seen.tpot_s is not None:
            yield Compared(name, "tpot", seen.tpot_s, before.tpot_s.value, after.tpot_s.value)
        if seen.ttft_s is not None:
            yield Compared(name, "ttft", seen.ttft_s, before.ttft_s.value, after.ttft_s.value)
