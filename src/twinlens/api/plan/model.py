"""The verb that chooses among models: from words to candidates, constraints and the Pareto set."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from twinlens.api.documented import Answered
from twinlens.api.plan.fit import ServingFit, serving_of
from twinlens.api.plan.reading.amount import count_of, dollars_of, up_to
from twinlens.api.plan.reading.options import FILE, NAME, NAMES, Catalogue, Context, Devices, Precision, Users
from twinlens.api.plan.reading.subject import asked_device, subject_of
from twinlens.api.question import Kind, Question, Verb, asks, option
from twinlens.errors import BadInput
from twinlens.planning.models import Choice, Limits, Told, candidate_of, choice
from twinlens.planning.prediction.work import spoken
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import catalogue_of
from twinlens.system.home_folder import catalogue_folder

if TYPE_CHECKING:
    from twinlens.api.words import PlanModelWords
    from twinlens.reporting.document.block import Document

DOLLARS = Kind("DOLLARS", dollars_of)
_MOST_BYTES = 2**20
_COLUMNS = ("model", "quality", "licence", "context")


@dataclass(frozen=True, slots=True, repr=False)
class ModelResult(Answered):
    """The Pareto set and all candidates. `notes`: how words were read."""

    answer: Choice
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.model import model_document

        return model_document(self.answer, self.notes)

    @property
    def best(self) -> tuple[str, ...]:
        return self.answer.best


def _names_of(name: str, word: object) -> tuple[str, ...]:
    """Names in one word with commas, or one by one."""
    words = word.split(",") if isinstance(word, str) else word
    if not isinstance(words, Sequence):
        raise BadInput(f"--{name} is of names: --{name} 8B,qwen3-8b", code="TL231")
    return tuple(str(each).strip() for each in words if str(each).strip())


class ModelAsked(Question):
    """Which of some models to serve."""

    models: Annotated[tuple[str, ...], option("Two or more: 8B,qwen3-8b,gpt-oss-20b.", Kind("NAMES", _names_of))]
    device: Annotated[str, option("H100, a name that list devices shows.", NAME)]
    devices: Devices = 1
    precision: Precision | None = None
    users: Users | None = None
    context: Context | None = None
    answer: Annotated[int, option("Of the context: 256.", Kind("TOKENS", count_of))] | None = None
    price: Annotated[Decimal, option("Of a device-hour: 2.50.", DOLLARS)] | None = None
    scores: Annotated[Path, option("CSV: model, quality, licence, context.", FILE)] | None = None
    licence: Annotated[str, option("That are allowed: mit,…", NAMES)] | None = None
    most_tpot: Annotated[float, option("Of a token: 50.", Kind("MS", up_to(1e7)))] | None = None
    least_quality: Annotated[float, option("Of your file.", Kind("SCORE", up_to(1e9)))] | None = None
    most_cost: Annotated[Decimal, option("Per million answer tokens.", DOLLARS)] | None = None
    catalogue: Catalogue | None = None


VERB = Verb(
    "plan model", (ModelAsked,), "--models 8B,qwen3-8b --device H100 --users 16", "Every figure with its formula."
)


@asks(VERB)
def model(models: Sequence[str] | None = None, **words: Unpack[PlanModelWords]) -> ModelResult:
    """Which model: constraints filter, then memory, predicted speed, cost and your own scores; the Pareto set.

    `model(["8B", "qwen3-8b"], device="H100", users=16, scores="scores.csv")`. `scores`: a CSV file with the columns
    model, quality, licence, context. `most_tpot` in milliseconds, `most_cost` in $ per million answer tokens. Raises
    BadInput (TL201, TL203, TL204, TL231).
    """
    asked = ModelAsked.read(VERB.name, {"models": models, **words})
    whole = catalogue_of(catalogue_folder(asked.catalogue))
    on, notes = asked_device(asked.device, None, whole)
    if on is None:
        raise BadInput("a choice is for a device; add --device H100", code="TL231")
    if len(set(asked.models)) < 2:
        raise BadInput("a choice is among two models or more; write --models 8B,qwen3-8b", code="TL231")
    told = _told(asked.scores)
    if told is None and (asked.licence or asked.least_quality is not None):
        raise BadInput("--licence and --least-quality are of your own file; add --scores FILE.csv", code="TL231")
    if asked.most_cost is not None and asked.price is None:
        raise BadInput("--most-cost needs the price of a device-hour; add --price 2.50", code="TL231")
    licences = tuple(each.strip().lower() for each in asked.licence.split(",")) if asked.licence else None
    slowest = None if asked.most_tpot is None else asked.most_tpot / 1000
    limits = Limits(slowest, asked.least_quality, asked.most_cost, licences)
    served = asked.model_dump(include={"users", "context", "precision"})
    plans = [serving_of(subject_of(name, whole), ServingFit.read(VERB.name, served)) for name in asked.models]
    length = asked.answer or min(256, plans[0].context // 2)
    if length >= plans[0].context:
        raise BadInput(f"--answer {length} leaves nothing of a context of {plans[0].context}", code="TL231")
    found = [
        candidate_of(plan, on, asked.devices, length, spoken(plan.weight_format), asked.price, limits, told or {})
        for plan in plans
    ]
    read_as = tuple(note for plan in plans for note in plan.subject.assumed)
    return ModelResult(choice(found, on, asked.devices), (*notes, *read_as))


def _told(path: Path | None) -> dict[str, Told] | None:
    """What a user's CSV says of models. Raises BadInput (TL231) for what is none."""
    if path is None:
        return None
    file = path.expanduser()
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
