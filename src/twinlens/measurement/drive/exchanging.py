"""Exchanges in real time: until the time is up, and on where the run has not settled."""

from __future__ import annotations

from twinlens.executors.protocol import Exchanger
from twinlens.measurement.drive.settled import is_settled
from twinlens.measurement.drive.training import TellProgress, give_up_s
from twinlens.record.arrow import RowWriter
from twinlens.spec.study import RunSpec


def exchange(exchanger: Exchanger, spec: RunSpec, rows: RowWriter, progress: TellProgress) -> int:
    """Take rows; how often the run was doubled as it had not settled when its time was up (`protocol.extend`)."""
    limit_s, extended = spec.protocol.duration_s, 0
    while True:
        done = exchanger.exchange()
        rows.add_all(done)
        elapsed_s = done[-1].end_ns / 1e9
        progress(min(1.0, elapsed_s / limit_s), rows.count)
        is_enough = rows.count >= spec.protocol.min_rows or elapsed_s >= give_up_s(limit_s)
        if elapsed_s >= limit_s and is_enough:
            if extended == spec.protocol.extend or is_settled(rows, spec):
                return extended
            extended, limit_s = extended + 1, limit_s * 2
