"""This machine's device as torch sees it, and its ceilings through torch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from twinlens.executors.in_process.ceiling import Ceiling, DeviceProbe
from twinlens.executors.torch.ceiling import rates
from twinlens.executors.torch.device import auto_note, choose_device
from twinlens.executors.torch.evidence.device_facts import device_facts
from twinlens.executors.torch.evidence.facts import framework_facts
from twinlens.record.estimate import Estimate
from twinlens.spec.asked_device import asked_device


def probe_device(asked: str) -> DeviceProbe:
    """Raises BadInput (TL208) for a device that is not here."""
    device = asked_device(asked)
    chosen = choose_device(device)

    def ceilings() -> tuple[Ceiling, ...]:
        with warnings.catch_warnings():  # what torch has to say of kernels that are tried here is nothing to act on
            warnings.simplefilter("ignore", UserWarning)
            return rates.all_ceilings(str(chosen))

    def deciding(format: str, threads: int | None) -> Mapping[str, Estimate]:
        return rates.deciding_ceilings(format, str(chosen), serving=True, threads=threads)

    return DeviceProbe(chosen.type, device_facts(chosen), framework_facts(), ceilings, deciding, auto_note(device))
