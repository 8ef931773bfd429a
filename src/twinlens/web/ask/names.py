"""Names that forms offer: models, devices, formats and engines, from the lists that refuse wrong ones."""

from __future__ import annotations

from twinlens.claims.names import KV_BYTES, USUAL
from twinlens.planning.prediction.band import shipped
from twinlens.spec.catalogue import catalogue_of
from twinlens.spec.model.reference import list_models
from twinlens.system.home_folder import catalogue_folder
from twinlens.theory.weight_format import WEIGHT_FORMATS


def known_names(*, is_probed: bool = False) -> dict[str, tuple[str, ...]]:
    """Each list by its name. `is_probed`: this machine is a device, too."""
    devices = tuple(each.name for each in catalogue_of(catalogue_folder(None)).devices)
    return {
        "models": (*(f"{size / 1e9:g}B" for size in USUAL), *list_models()),
        "devices": (*(("this",) if is_probed else ()), *devices),
        "precisions": tuple(WEIGHT_FORMATS),
        "caches": tuple(KV_BYTES),
        "engines": _engines(),
    }


def _engines() -> tuple[str, ...]:
    """Engines whose constants are known, of serving and of training."""
    return tuple(sorted({name for each in shipped().values() for name in each.seen["engine"]}))
