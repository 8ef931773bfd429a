"""The constants that come with Twinlens, fitted to public measurements: values, bands, and what they were fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

from twinlens.planning.prediction.band import Band, band_of, kinds_of, of_groups
from twinlens.planning.prediction.constant import Constants
from twinlens.system.document import json_of


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Constants of one lens with their bands. `seen`: devices, engines and models of the rows they were fitted to."""

    constants: Constants
    bands: Mapping[str, Mapping[str, float]]
    seen: Mapping[str, frozenset[str]]
    ranges: Mapping[str, tuple[float, float]]
    """Least and most of batch, prompt and answer (or sequences and length) in calibration."""
    fitted_on: str
    date: str
    own: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Devices, engines and models of the user's own runs; empty where there are none."""

    def band(self, metric: str, *, device: str, engine: str, model: str, groups: bool = False) -> Band:
        """The band of a prediction, by what calibration had seen. Raises KeyError for a metric that has none.

        Of `groups` that share experts: no narrower than that of such rows alone, where calibration had enough of them.
        """
        known = {"device": device in self.seen["device"], "engine": engine in self.seen["engine"]}
        usual = band_of(self.bands, kinds_of(metric, **known, model=model in self.seen["model"]))
        apart = self.bands.get(of_groups(metric)) if groups else None
        if apart is None or (apart["low"] >= usual.low and apart["high"] <= usual.high):
            return usual
        low, high = min(usual.low, apart["low"]), max(usual.high, apart["high"])
        return Band(low, high, int(apart["rows"]), of_groups(metric))

    def outside(self, **values: float) -> dict[str, float]:
        """How many times beyond the range of calibration each value lies; empty inside it."""
        out = {}
        for name, value in values.items():
            low, high = self.ranges.get(name, (value, value))
            if value > 0 and not low <= value <= high:
                out[name] = low / value if value < low else value / high
        return out


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, Calibrated]:
    """Constants by lens: "serving" and "training"."""
    text = (resources.files("twinlens.planning.prediction") / "constants.json").read_text(encoding="utf-8")
    return {lens: calibrated_from(entry) for lens, entry in json_of(text).items()}


def calibrated_from(entry: Mapping[str, Any]) -> Calibrated:
    """Constants from plain data, as `plain` writes them."""
    return Calibrated(
        Constants(entry["base"], entry["factors"]),
        entry["bands"],
        {name: frozenset(values) for name, values in entry["seen"].items()},
        {name: (low, high) for name, (low, high) in entry["ranges"].items()},
        entry["fitted_on"],
        entry["date"],
        {name: frozenset(values) for name, values in entry.get("own", {}).items()},
    )


def plain(known: Calibrated) -> dict[str, Any]:
    """Constants as plain data; factors within 2 % of 1 are left out."""
    factors = {
        label: {name: round(value, 3) for name, value in own.items() if abs(value) > 0.02}
        for label, own in sorted(known.constants.factors.items())
    }
    own = {"own": {name: sorted(values) for name, values in known.own.items()}} if known.own else {}
    return {
        "date": known.date,
        "fitted_on": known.fitted_on,
        "base": {name: round(value, 4) for name, value in known.constants.base.items()},
        "factors": {label: own for label, own in factors.items() if own},
        "bands": {kind: dict(row) for kind, row in known.bands.items()},
        "seen": {name: sorted(values) for name, values in known.seen.items()},
        "ranges": {name: list(limits) for name, limits in known.ranges.items()},
        **own,
    }
