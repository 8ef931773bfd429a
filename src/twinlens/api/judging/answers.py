"""The verb that asks: which runs answer a decision, and which run is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.compare import sides
from twinlens.comparison.answering import (
    DEVICE,
    LENS,
    UNREADABLE,
    Candidate,
    Missing,
    Question,
    candidates,
    question_of,
    question_of_spec,
    setting,
    settings_for,
)
from twinlens.comparison.side import Side
from twinlens.errors import BadInput
from twinlens.measurement.preflight.check import long_enough_s
from twinlens.record.codec import encode
from twinlens.record.run import Run
from twinlens.spec.load import load
from twinlens.spec.study import Study
from twinlens.version import __version__

_SHORT = ("too short", "unproven")
"""Labels of runs that a longer one may be better than."""
_EXAMPLES = {"training": "pretrain", "inference": "chat", "collective": "collectives"}


@dataclass(frozen=True, slots=True)
class Answers:
    """A question, every point held against it, the nearest first, and the run that is missing: None where one answers.

    `lacks`: why no command for it can be given, "" otherwise.
    """

    question: Question
    candidates: tuple[Candidate, ...]
    missing: Missing | None
    lacks: str = ""

    def __repr__(self) -> str:
        return f"<Answers: {len(self.answering)} of {len(self.candidates)} points answer>"

    @property
    def answering(self) -> tuple[Candidate, ...]:
        return tuple(each for each in self.candidates if each.standing == "answers")

    def to_json(self) -> dict[str, Any]:
        return {
            "asked": dict(self.question.fields), "limits": dict(self.question.limits),
            "quantile": self.question.quantile, "candidates": [encode(each) for each in self.candidates],
            "missing": encode(self.missing) if self.missing else None, "lacks": self.lacks,
        }  # fmt: skip


def answers(*runs: str | Path | Run | Iterable[Run], to: str | Path | Study) -> tuple[Answers, ...]:
    """Which points of some runs answer a question, which in part, and the command of the run that is missing.

    `to`: fields, "lens=inference,precision=bf16,rate_per_s=8,slo.ttft_s=0.5,device=H100", or a spec (a file, an
    example, a study), each point of which is a question. Raises BadInput (TL242).
    """
    if not runs:
        raise BadInput("which runs are to answer? Give run or study folders", code=UNREADABLE)
    given = tuple(side for each in runs for side in sides(each, len(runs) > 1))
    known = tuple(side for side in given if not side.group.is_simulated)  # a law answers nothing about a machine
    if given and not known:
        raise BadInput("these runs are simulated, and what was measured answers: give measured runs", code=UNREADABLE)
    if isinstance(to, str) and "=" in to and not Path(to).exists():
        return (_answered(question_of(to), known),)
    study = to if isinstance(to, Study) else load(to)
    start = None if isinstance(to, Study) else str(to)
    return tuple(_answered(question_of_spec(run), known, start) for run in study.point_runs())


def answers_json(found: Iterable[Answers]) -> dict[str, Any]:
    """As plain data, for --json."""
    return {"schema": 1, "twinlens": __version__, "questions": [encode(each) for each in found]}


def _answered(question: Question, known: Sequence[Side], spec: str | None = None) -> Answers:
    found = candidates(question, known)
    if any(each.standing == "answers" for each in found):
        return Answers(question, found, None)
    missing, lacks = (Missing(spec, ()), "") if spec is not None else _missing(question, found)
    return Answers(question, found, missing, lacks)


def _missing(question: Question, found: tuple[Candidate, ...]) -> tuple[Missing | None, str]:
    """The run that would answer, from the nearest point of the same lens, else from a shipped example."""
    lens = question.fields.get(LENS) or (found[0].side.lens if found else "inference")
    nearest = next((each for each in found if each.side.lens == lens), None)
    if nearest is not None:
        start, settings = str(nearest.side.runs[0].folder), list(settings_for(nearest))
        device = next((str(each.wanted) for each in nearest.unlike if each.path == DEVICE), None)
    else:
        asked = {path: value for path, value in question.fields.items() if path not in (LENS, DEVICE)}
        start, settings = _EXAMPLES[lens], [setting(path, value) for path, value in asked.items()]
        device = question.fields.get(DEVICE)
    settings += [f"workload.slo.{name}={limit}" for name, limit in question.limits.items()]
    if question.limits and question.quantile != 0.99:
        settings.append(f"workload.slo.quantile={question.quantile}")
    try:
        study = load(start, settings)
        longer = nearest is not None and nearest.side.group.label in _SHORT
        settings += _duration(question, study, 2 if longer else 1)
    except BadInput as error:
        return None, str(error)
    return Missing(start, tuple(settings), device), ""


def _duration(question: Question, study: Study, times: float) -> list[str]:
    """Long enough for the quantile that the limits are on, where the rate says how long that is, and at least `times`
    the duration there was."""
    rate, before = study.runs()[0].point.rate_per_s, study.protocol.duration_s
    needed = long_enough_s(rate, question.quantile) if question.limits and rate is not None else 0.0
    needed = max(needed, times * before)
    return [f"protocol.duration_s={needed:g}"] if needed > before else []
