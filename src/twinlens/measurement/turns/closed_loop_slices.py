"""A closed loop in turns: a slice of requests, given back when all of it has ended and the server is idle again.

Until the last answer of a slice has ended is the slice's own time; the next point's slice begins after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

from twinlens.executors.protocol import Server, network_client_of
from twinlens.measurement.client.calibrate import CALIBRATION_S, calibrate, typical_answer_tokens
from twinlens.measurement.drive.hopeless import Hope, while_there_is_hope
from twinlens.measurement.turns.listener import ListenerMeter, metered
from twinlens.measurement.turns.lockstep_slices import Work
from twinlens.measurement.turns.worker_turn import Turn, Worked
from twinlens.network.client import undisturbed
from twinlens.record.arrow import RowWriter
from twinlens.record.codec import encode
from twinlens.record.request import Request
from twinlens.record.store import update_run
from twinlens.schedule.closed_loop import closed_slice
from twinlens.schedule.draw import endless_requests
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

_LEAST_WAVES = 4  # fewer, and a slice is more of a batch that begins and ends together than of a closed loop
_NOT_READ = "points took turns, and the server's totals go on counting through all of them"


@contextmanager
def load_in_turns(
    server: Server, spec: RunSpec, folder: Path, say: Callable[[str], None], is_up: Callable[[], bool]
) -> Iterator[Work]:
    """Everything made ready for turns of a closed loop; the client is calibrated before, while all others wait.

    The work raises ExecutorFailed (TL306) for a run that is given up. `is_up` as for `player`.
    """
    hope = Hope(spec.protocol.hopeless_s, is_up)
    client = network_client_of(server)
    if client is None:
        yield requests(server, spec, hope)
        return
    say(f"calibrating the client, about {CALIBRATION_S:g} s")
    update_run(folder, calibration=asdict(calibrate(None, typical_answer_tokens(spec, None))))
    update_run(folder, server_metrics={"reason": _NOT_READ})
    meter = ListenerMeter.of(spec.executor.options.get("url"))
    try:
        with undisturbed():
            yield metered(requests(server, spec, hope), meter)
    finally:
        update_run(folder, listener=encode(meter.read()))
        update_run(folder, client=encode(client.client()))


def requests(server: Server, spec: RunSpec, hope: Hope) -> Work:
    """Requests of a closed loop: as many as the turn asks for, four whole waves at least, or until its time is up."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    upcoming = endless_requests(workload, seed=spec.seed, prompt_seed=spec.prompt_seed())
    concurrency = spec.point.concurrency or 1

    def work(turn: Turn, rows: RowWriter) -> Worked:
        nonlocal upcoming
        spans: list[tuple[int, int]] = []

        def take(request: Request) -> None:
            rows.add(replace(request, slice=turn.number))
            spans.append((request.intended_ns, request.end_ns))
            hope.see(request.outcome, request.error, request.end_ns, request.loss)

        slice_ns = round(turn.seconds * 1e9)
        count = None if turn.observations is None else max(turn.observations, _LEAST_WAVES * concurrency)
        schedule = closed_slice(concurrency, upcoming, requests=count, slice_ns=slice_ns)
        server.play(while_there_is_hope(schedule, hope), take)
        hope.check()
        upcoming = chain(schedule.left, upcoming)
        worked_ns = max(end for _, end in spans) - min(begin for begin, _ in spans)
        return Worked(worked_ns / 1e9, len(spans))

    return work
