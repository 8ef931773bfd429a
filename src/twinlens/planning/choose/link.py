"""Links taken away: the same ceilings with the bus in the place of the fast link."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinlens.planning.prediction.place import Rates
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device

USUAL_BUS_BYTES_PER_S = 63e9
"""PCIe 5 with 16 lanes, where the catalogue has no bus of a device."""


def without_link(rates: Rates, device: Device, catalogue: Catalogue) -> Rates:
    """Devices of one machine on their bus alone."""
    bus = catalogue.link(device.bus).one_way_bytes_per_s if device.bus else USUAL_BUS_BYTES_PER_S
    return replace(rates, link_bytes_per_s=np.minimum(bus, rates.link_bytes_per_s))
