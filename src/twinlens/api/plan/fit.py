"""The verb that says whether a model fits: from words to a plan, and from a plan to an answer with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.plan.asked import count_of, device_of, kv_format_of, subject_of, tokens_of, weight_format_of
from twinlens.planning.figure import assumed
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.serving_fit import ServingFit, serving_fit
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import with_words
from twinlens.spec.catalogue import catalogue_of
from twinlens.system.catalogue_folder import catalogue_folder
from twinlens.version import __version__


@dataclass(frozen=True, slots=True)
class FitResult:
    """An answer: whether it fits, where it would, and why. `notes`: how words were read."""

    answer: ServingFit
    notes: tuple[Finding, ...] = ()

    @property
    def fits(self) -> bool | None:
        return self.answer.fits

    def why(self) -> dict[str, Any]:
        return self.answer.why()

    def to_json(self) -> dict[str, Any]:
        whole = {"schema": 1, "twinlens": __version__, "notes": [each.to_json() for each in self.notes], **self.why()}
        return dict(with_words(whole))


def fit(
    model: str,
    *,
    users: object = None,
    context: object = None,
    device: str | None = None,
    devices: object = None,
    precision: str | None = None,
    kv: str | None = None,
    catalogue: str | Path | None = None,
) -> FitResult:
    """Whether `model` fits: `fit("70B", users=16, context="32K", device="B200")`.

    Raises BadInput for unknown names (TL201, TL203, TL204) and for values that are no counts (TL231).
    """
    kv_name, kv_bytes = kv_format_of(kv)
    whole = catalogue_of(catalogue_folder(catalogue))
    plan = Serving(
        subject_of(model, whole),
        weight_format_of(precision),
        kv_name,
        kv_bytes,
        count_of("users", 1 if users is None else users),
        tokens_of("context", "8K" if context is None else context),
    )
    asked, is_short = device_of(device, whole) if device else (None, False)
    many = count_of("devices", 1 if devices is None else devices)
    notes = (assumed("device", asked.name, said=device),) if asked and is_short else ()
    return FitResult(serving_fit(plan, asked, many, whole.devices), notes)
