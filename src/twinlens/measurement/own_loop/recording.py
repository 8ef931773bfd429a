"""The run folder of somebody's own loop: rows and telemetry while it goes on, then facts, and its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from twinlens.measurement.machine.energy import open_meters
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.record.codec import encode
from twinlens.record.executor.facts import Facts
from twinlens.record.run import State
from twinlens.record.step import Marks, step_table
from twinlens.record.store import create_run, end_run, open_rows, open_telemetry, update_run
from twinlens.spec.study import RunSpec
from twinlens.system.home_folder import as_tilde
from twinlens.system.nvml import open_gpus

_MOST_SHARE = 0.002
"""Of a processor, for telemetry: the loop is somebody's own, and of its time watching may take 1 % altogether."""


class Recording:
    """Open from its making until `stop`. Raises OSError where the folder cannot be made."""

    def __init__(self, spec: RunSpec, out: Path, gpus: tuple[str, ...] | None, *, knows_others: bool) -> None:
        self.folder = create_run(out, spec)
        update_run(self.folder, place="here")
        self._open = contextlib.ExitStack()
        self._rows = self._open.enter_context(open_rows(self.folder, spec))
        readings = self._open.enter_context(open_telemetry(self.folder))
        boards = open_gpus(gpus)[0] if gpus else ()
        meters = open_meters(boards, boards=gpus or ())
        sampler = Sampler(
            readings.add_all, boards, spec.protocol.telemetry_s, meters=meters, knows_others=knows_others,
            most_share=_MOST_SHARE,
        )  # fmt: skip
        self.sampler = self._open.enter_context(sampler)
        self.origin_ns = time.monotonic_ns()

    def take(self, rows: Sequence[Marks]) -> None:
        """More rows, which are on disk when this returns."""
        self._rows.add_table(step_table(rows))

    def know(self, spec: RunSpec, facts: Facts) -> None:
        """What was seen of the first steps takes the place of what was not known yet."""
        update_run(self.folder, asked=spec.to_dict(), fingerprint=spec.fingerprint(), facts=as_tilde(encode(facts)))

    def stop(self) -> None:
        """No more rows and no more telemetry; may be called again. Raises ExecutorFailed where the disk is full."""
        self._open.close()

    def end(self, state: State, error: str | None) -> None:
        """Say how it ended."""
        self.stop()
        end_run(self.folder, state, error, rows=self._rows.count if state == "finished" else None)
