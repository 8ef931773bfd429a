"""The second half of the inference lens: a schedule of requests, played in real time against a server."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from twinlens.executors.protocol import Server
from twinlens.measure.train import Progress
from twinlens.record.request import Request
from twinlens.record.rows import RowWriter
from twinlens.record.store import update_run
from twinlens.schedule.build import load_of
from twinlens.spec.study import RunSpec


def play_load(server: Server, spec: RunSpec, folder: Path, rows: RowWriter, progress: Progress) -> None:
    """Play the whole schedule of a run once, and write down the plan beside the rows and how the client did."""
    load = load_of(spec)
    if load.plan is not None:
        with pa.ipc.new_file(str(folder / "schedule.arrow"), load.plan.to_table().schema) as file:
            file.write_table(load.plan.to_table())
    seconds = spec.protocol.duration_s

    def take(request: Request) -> None:
        rows.add(request)
        progress(min(1.0, request.end_ns / 1e9 / seconds), rows.count)

    try:
        server.play(load.schedule, take)
    finally:
        client = getattr(server, "client", None)  # only a client over a network has lateness of its own
        if client is not None:
            update_run(folder, client=client().to_json())
