"""The inference lens at engine level, in real time: lockstep batches until the time is up."""

from __future__ import annotations

from twinlens.executors.protocol import Server
from twinlens.measurement.drive.settled import is_settled
from twinlens.measurement.drive.training import TellProgress, give_up_s
from twinlens.record.arrow import RowWriter
from twinlens.record.request import Request
from twinlens.schedule.loop.lockstep import LockstepLoop
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Images, InferenceWorkload


def serve(server: Server, spec: RunSpec, rows: RowWriter, progress: TellProgress) -> int:
    """Play batches; how often the run was doubled as it had not settled when its time was up (`protocol.extend`)."""
    workload, batch = spec.workload, spec.point.batch
    assert isinstance(workload, InferenceWorkload)
    vision = isinstance(workload.data, Images)
    limit_s, first_group, ended_ns = spec.protocol.duration_s, 0, 0
    for extended in range(spec.protocol.extend + 1):

        def take(request: Request, limit_s: float = limit_s) -> None:
            nonlocal ended_ns
            rows.add(request)
            if request.end_ns != ended_ns:
                ended_ns = request.end_ns
                progress(min(1.0, request.end_ns / 1e9 / limit_s), rows.count)

        schedule = LockstepLoop(
            batch,
            None if vision else workload.input_tokens,
            None if vision else workload.output_tokens,
            until_ns=round(limit_s * 1e9),
            min_requests=max(0, spec.protocol.min_rows * batch - rows.count),
            give_up_ns=round(give_up_s(limit_s) * 1e9),
            seed=spec.seed,
            first_group=first_group,
        )
        server.play(schedule, take)
        first_group, limit_s = schedule.groups, limit_s * 2
        if extended == spec.protocol.extend or is_settled(rows, spec):
            return extended
    return 0
