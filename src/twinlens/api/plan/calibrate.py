"""The verb that moves the shipped constants to runs of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack, get_args

from twinlens.api.documented import Documented
from twinlens.api.plan.asked import asked_device
from twinlens.api.plan.observed import observed
from twinlens.api.plan.options import FORMAT, NAME, Catalogue, Probe, Tensor
from twinlens.api.question import Question, Verb, argument, asks, option
from twinlens.errors import BadInput
from twinlens.planning.prediction.band import Calibrated, calibrated_from, plain, shipped
from twinlens.planning.prediction.calibrate import Lens, Observation, calibrated, said
from twinlens.planning.prediction.work import STORED
from twinlens.record.run import Run
from twinlens.spec.catalogue import catalogue_of
from twinlens.system.document import read_json
from twinlens.system.home_folder import catalogue_folder
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.api.words import PlanCalibrateWords
    from twinlens.reporting.document.block import Document


@dataclass(frozen=True, slots=True)
class Compared:
    """One measured time of a run beside what the public and the own constants say. Seconds."""

    run: str
    metric: str
    measured_s: float
    public_s: float
    own_s: float


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(Documented):
    """Constants of one's own by lens ("serving", "training"), None where no run was of it, and how near they come to
    the runs that made them. `left_out`: runs, and why."""

    serving: Calibrated | None
    training: Calibrated | None
    compared: tuple[Compared, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def document(self, written: str | None = None) -> Document:
        from twinlens.reporting.plan.calibrate import calibrate_document

        rows = [(each.run, each.metric, each.measured_s, each.public_s, each.own_s) for each in self.compared]
        return calibrate_document(rows, self.left_out, written)

    def to_json(self) -> dict[str, Any]:
        lenses = {"serving": self.serving, "training": self.training}
        rows = [{"run": c.run, "metric": c.metric, "measured_s": c.measured_s, "public_s": c.public_s, "own_s": c.own_s}
                for c in self.compared]  # fmt: skip
        left = [{"run": run, "why": why} for run, why in self.left_out]
        own = {lens: plain(known) for lens, known in lenses.items() if known is not None}
        return {"schema": 1, "twinlens": __version__, **own, "compared": rows, "left_out": left}

    def write(self, path: str | Path) -> None:
        """A file for `tl.plan.constants`."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")


class CalibrateAsked(Question):
    """Which runs the constants of predictions are moved to."""

    runs: Annotated[tuple[Any, ...], argument("Folders of runs or of studies.", "RUN")]
    device: Annotated[str, option("What they ran on, where they do not say.", NAME)] | None = None
    precision: Annotated[str, option("Of the weights: bf16, fp8, nvfp4, int4 …", FORMAT)] | None = None
    tensor: Tensor = 1
    engine: Annotated[str, option("vllm, sglang, trtllm …, where a run does not say.", NAME)] | None = None
    probe: Probe | None = None
    catalogue: Catalogue | None = None


VERB = Verb("plan calibrate", (CalibrateAsked,), "runs --device H100 -o constants.json")


@asks(VERB)
def calibrate(*runs: str | Path | Run, **words: Unpack[PlanCalibrateWords]) -> Calibration:
    """Move the constants of predictions to your own runs, served or trained, and see how near they come.

    They are held to median TTFT and TPOT of each served run, at its rate or its users, and to the median step of each
    that trained on one device or over ranks. `device`: "this" or a `probe` is a device, too; without one, that of each
    run. Raises BadInput for an unknown device or precision, and where no run is of use.
    """
    asked = CalibrateAsked.read(VERB.name, {"runs": runs or None, **words})
    precision = asked.precision
    card, _ = asked_device(asked.device, asked.probe, catalogue_of(catalogue_folder(asked.catalogue)))
    if precision is not None and precision not in STORED:
        raise BadInput(f"unknown precision {precision!r}; predictions know {', '.join(STORED)}")
    observations, left_out = observed(asked.runs, card, precision, asked.tensor, asked.engine)
    found: dict[Lens, Calibrated | None] = {}
    rows: list[Compared] = []
    for lens in get_args(Lens):
        own = [each for each in observations if each[1].lens == lens]
        known = calibrated([each for _, each in own], today=datetime.now(UTC).date()) if own else None
        found[lens] = known
        rows += compared(own, known) if known else []
    return Calibration(found["serving"], found["training"], tuple(rows), tuple(left_out))


def constants(path: str | Path, lens: Lens = "serving") -> Calibrated:
    """Constants that `Calibration.write` wrote. Raises BadInput for another file, and where no run was of the lens."""
    found = own_constants(path)
    if lens not in found:
        raise BadInput(f"{Path(path).name} holds no constants of {lens}: none of its runs was of it")
    return found[lens]


def own_constants(path: str | Path) -> dict[Lens, Calibrated]:
    """The same of every lens that the file has."""
    file = Path(path)
    try:
        written = read_json(file)
        found = {each: calibrated_from(written[each]) for each in get_args(Lens) if each in written}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise BadInput(f"{file.name} holds no constants of `plan calibrate`: {wrong}") from None
    if not found:
        raise BadInput(f"{file.name} holds no constants of `plan calibrate`: neither of serving nor of training")
    return found


def compared(observations: Iterable[tuple[str, Observation]], own: Calibrated) -> Iterable[Compared]:
    """What was measured, what the public constants say, and what `own` say."""
    for name, seen in observations:
        for metric, seconds in seen.measured():
            public, mine = (said(seen.question, metric, known) for known in (shipped()[seen.lens], own))
            yield Compared(name, metric, seconds, public.value, mine.value)
