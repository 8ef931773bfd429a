"""All that watches one process of a gateway, in one: rows, times, and spans where they are asked for."""

from __future__ import annotations

import os
from pathlib import Path

from twinlens.gateway.settings import GatewaySettings
from twinlens.gateway.watch.day import Front
from twinlens.gateway.watch.prometheus import Times
from twinlens.gateway.watch.records import Records
from twinlens.gateway.watch.telemetry import Telemetry


class Watching(Records):
    """Records that observe times too, in their thread. Raises BadInput (TL283) for telemetry that cannot be sent."""

    def __init__(self, out: Path, front: Front, settings: GatewaySettings) -> None:
        self.times = Times()
        self._telemetry: Telemetry | None = None
        also = [self.times.add]
        if settings.telemetry_url:
            self._telemetry = Telemetry(settings.telemetry_url, instance=str(os.getpid()))
            also.append(self._telemetry.add)
        super().__init__(out, front, longest_s=settings.deadline_s, also=tuple(also))

    def close(self) -> None:
        super().close()
        if self._telemetry is not None:
            self._telemetry.close()
