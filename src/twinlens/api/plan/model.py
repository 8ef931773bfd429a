"""The verb that chooses among models: from words to candidates, constraints and the Pareto set."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.plan.amount import dollars_of
from twinlens.api.plan.as_json import as_json
from twinlens.api.plan.asked import asked_device, subject_of
from twinlens.api.plan.fit import serving_of
from twinlens.api.plan.number import above_zero, count_of
from twinlens.errors import BadInput
from twinlens.planning.models.answer import Choice, choice
from twinlens.planning.models.candidate import Limits, Told, candidate_of
from twinlens.planning.prediction.stored import spoken
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import catalogue_of
from twinlens.system.catalogue_folder import catalogue_folder

_MOST_BYTES = 2**20
_COLUMNS = ("model", "quality", "licence", "context")


@dataclass(frozen=True, slots=True)
class ModelResult:
    """The Pareto set and all candidates. `notes`: how words were read."""

    answer: Choice
    notes: tuple[Finding, ...] = ()

    @property
    def best(self) -> tuple[str, ...]:
        return self.answer.best

    def why(self) -> dict[str, Any]:
        return self.answer.why()

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why(), self.notes)


def model(
    models: Sequence[str],
    *,
    device: str,
    devices: object = None,
    precision: str | None = None,
    users: object = None,
    context: object = None,
    answer: object = None,
    price: object = None,
    scores: str | Path | None = None,
    licence: str | None = None,
    most_tpot: object = None,
    least_quality: object = None,
    most_cost: object = None,
    catalogue: str | Path | None = None,
) -> ModelResult:
    """Which of `models` to serve: `model(["8B", "qwen3-8b"], device="H100", users=16, scores="scores.csv")`.

    `scores`: a CSV file with the columns model, quality, licence, context. `most_tpot` in milliseconds, `most_cost` in
    $ per million answer tokens. Raises BadInput (TL201, TL203, TL204, TL231).
    """
    whole = catalogue_of(catalogue_folder(catalogue))
    on, notes = asked_device(device, None, whole)
    if on is None:
        raise BadInput("a choice is for a device; add --device H100", code="TL231")
    names = [name.strip() for name in models if name.strip()]
    if len(set(names)) < 2:
        raise BadInput("a choice is among two models or more; write --models 8B,qwen3-8b", code="TL231")
    many, told = count_of("devices", 1 if devices is None else devices), _told(scores)
    if told is None and (licence or least_quality is not None):
        raise BadInput("--licence and --least-quality are of your own file; add --scores FILE.csv", code="TL231")
    cost = None if price is None else dollars_of("price", price)
    if most_cost is not None and cost is None:
        raise BadInput("--most-cost needs the price of a device-hour; add --price 2.50", code="TL231")
    limits = Limits(
        None if most_tpot is None else above_zero("most-tpot", most_tpot, 1e7) / 1000,
        None if least_quality is None else above_zero("least-quality", least_quality, 1e9),
        None if most_cost is None else dollars_of("most-cost", most_cost),
        tuple(each.strip().lower() for each in licence.split(",")) if licence else None,
    )
    plans = [serving_of(subject_of(name, whole), users, context, precision, None, {}) for name in names]
    length = count_of("answer", min(256, plans[0].context // 2) if answer is None else answer)
    if length >= plans[0].context:
        raise BadInput(f"--answer {length} leaves nothing of a context of {plans[0].context}", code="TL231")
    found = [
        candidate_of(plan, on, many, length, spoken(plan.weight_format), cost, limits, told or {}) for plan in plans
    ]
    read_as = tuple(note for plan in plans for note in plan.subject.assumed)
    return ModelResult(choice(found, on, many), (*notes, *read_as))


def _told(path: str | Path | None) -> dict[str, Told] | None:
    """What a user's CSV says of models. Raises BadInput (TL231) for what is none."""
    if path is None:
        return None
    file = Path(path).expanduser()
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{file.name} is too large for scores; keep it below 1 MB", code="TL231")
        with file.open(encoding="utf-8-sig", newline="") as text:
            rows = list(csv.DictReader(text))
    except (OSError, ValueError, csv.Error) as wrong:
        raise BadInput(f"--scores {file.name!r} cannot be read as CSV ({wrong})", code="TL231") from None
    if not rows or "model" not in rows[0] or not set(rows[0]) <= {*_COLUMNS}:
        raise BadInput(
            f"{file.name} needs a line of heads from: {', '.join(_COLUMNS)}, and a row a model", code="TL231"
        )
    told: dict[str, Told] = {}
    for place, row in enumerate(rows, start=2):
        if row["model"] in told:
            raise BadInput(f"{file.name}, line {place}: {str(row['model'])[:40]!r} stands there twice", code="TL231")
        licence = (row.get("licence") or "").strip().lower()[:60] or None
        told[str(row["model"])] = Told(_score(row, file, place), licence, _context(row, file, place))
    return told


def _score(row: dict[str, Any], file: Path, place: int) -> float | None:
    if not (row.get("quality") or "").strip():
        return None
    try:
        value = float(row["quality"])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(f"{file.name}, line {place}: quality {row['quality'][:40]!r} is no number", code="TL231")
    return value


def _context(row: dict[str, Any], file: Path, place: int) -> int | None:
    text = (row.get("context") or "").strip()
    if text and not text.isdecimal():
        raise BadInput(f"{file.name}, line {place}: context {text[:40]!r} is no number of tokens", code="TL231")
    return int(text) if text else None
