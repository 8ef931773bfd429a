"""Measured runs of one's own as the base of a plan: their model, lengths, engine and load, and their constants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from twinlens.api.plan.calibrate import Compared, compared
from twinlens.api.plan.number import UNREADABLE
from twinlens.api.plan.observed import observed
from twinlens.api.runs import read
from twinlens.errors import BadInput
from twinlens.planning.prediction.band import Calibrated
from twinlens.planning.prediction.calibrate import calibrated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.spec.device import Device, find_device


@dataclass(frozen=True, slots=True)
class Like:
    """`question`: that of the last run. `rows`: what was measured beside what was predicted, before and after."""

    question: ServingQuestion
    known: Calibrated
    rows: tuple[Compared, ...]


def like_runs(path: str | Path, device: Device | None, precision: str | None, tensor: int, engine: str | None) -> Like:
    """What served runs say. Raises BadInput where none is of use, and (TL231) where their device is not known."""
    card = device or _device_of(path)
    observations, _ = observed([path], card, precision, tensor, engine, "serving")
    known = calibrated([each for _, each in observations], today=datetime.now(UTC).date())
    question = observations[-1][1].question
    assert isinstance(question, ServingQuestion)
    return Like(question, known, tuple(compared(observations, known)))


def _device_of(path: str | Path) -> Device:
    products = [str(run.facts.executor.value("accelerator.product") or "") for run in read(path) if run.facts]
    found = next((device for each in products if (device := find_device(each))), None)
    if found is None:
        said = f" ({products[0][:60]})" if products and products[0] else ""
        raise BadInput(
            f"the device of these runs{said} is not in the catalogue; name it with --device, or give a "
            "--probe of it (`twinlens probe --json`)",
            code=UNREADABLE,
        )
    return found
