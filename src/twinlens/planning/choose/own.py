"""Constants of somebody's own runs in a choice: on the devices that they ran on they go before the public ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from twinlens.planning.prediction.shipped import Calibrated


@dataclass(frozen=True, slots=True)
class Own:
    """`devices` and `engine` of the runs, and the constants that were moved to them."""

    devices: frozenset[str]
    engine: str
    known: Calibrated

    def labels(self, groups: tuple[str, ...], device: str) -> tuple[str, ...]:
        """Groups of constants of a device, with those of its own runs."""
        return (*groups, "own") if device in self.devices else groups


Owns = Mapping[Literal["serving", "training"], Own]
"""By lens; one without runs is absent."""


def known_on(device: str, own: Own | None, public: Calibrated) -> Calibrated:
    """The constants that hold on a device."""
    return own.known if own is not None and device in own.devices else public
