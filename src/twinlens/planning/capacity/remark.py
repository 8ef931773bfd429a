"""Remarks on a prediction: its band, what calibration had not seen, and how far beyond its range it lies."""

from __future__ import annotations

from typing import Any

from twinlens.planning.prediction.answer import Said, ServingAnswer, TrainingAnswer
from twinlens.planning.prediction.band import FLOOR
from twinlens.planning.prediction.question import ServingQuestion, TrainingQuestion
from twinlens.record.finding import Finding

NOT_CONSIDERED = "disaggregation, prefix caching, speculative decoding"


def remarks_of(
    answer: ServingAnswer | TrainingAnswer | None, question: ServingQuestion | TrainingQuestion
) -> tuple[Finding, ...]:
    """Findings on one prediction."""
    if answer is None:
        return ()
    if isinstance(answer, TrainingAnswer):
        bands = [_band("step", answer.step_s, "training")]
    else:
        bands = [_band("tpot", answer.tpot_s, "serving"), _band("ttft", answer.ttft_s, "serving"),
                 Finding("plan-tail", "notes", question.model), not_considered(question.model)]  # fmt: skip
    names: dict[str, Any] = {"device": question.device.name, "engine": question.engine, "model": question.model}
    unseen = {kind: names[kind] for kind in answer.unseen}
    seen = [Finding("plan-unseen", "warns", ",".join(unseen), unseen)] if unseen else []
    beyond = [Finding("plan-beyond", "warns", name, {"times": times}) for name, times in answer.distance.items()]
    near = [] if seen or beyond else [Finding("plan-within", "notes", question.model)]
    return (*bands, *near, *seen, *beyond)


def not_considered(model: str) -> Finding:
    """What a server can do that no prediction of serving here counts."""
    return Finding("plan-not-considered", "notes", model, {"what": NOT_CONSIDERED})


def _band(metric: str, said: Said, lens: str) -> Finding:
    numbers = {"low": said.band.low, "high": said.band.high, "level": said.level, "rows": said.band.rows,
               "kind": said.band.kind, "floor": FLOOR[lens]}  # fmt: skip
    return Finding("plan-band", "notes", metric, numbers)
