"""Several clients of one run: started, found ready, calibrated all at once, and closed whatever happens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol, TypeVar

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.measurement.client.clock import Offset
from twinlens.measurement.client.messages import Calibrate, Calibrated, Failed, Instruction, Job, Lost, Ready, Report
from twinlens.network.dialect.endpoint import EndpointConfig
from twinlens.record.client import Calibration
from twinlens.schedule.plan import Plan
from twinlens.schedule.split import Share, refuse_unshared
from twinlens.spec.study import RunSpec

_Told = TypeVar("_Told", Ready, Calibrated)
_POLL_S = 0.02
_START_S = 60.0
_CALIBRATE_S = 60.0


class ClientHandle(Protocol):
    """A client somewhere. `clock`: its clock less ours, with the bound now known; None where they share one."""

    name: str

    @property
    def clock(self) -> Offset | None: ...
    def align(self) -> None:
        """Measure its clock; to be called before and after it plays, as a clock may drift."""
        ...

    def say(self, order: Instruction) -> None: ...
    def receive(self) -> list[Report]:
        """Reports that have come meanwhile. Raises Lost once the client is gone and all its reports were received."""
        ...

    def begin_at(self, origin_ns: int) -> None:
        """Let it play; time zero is this moment of our monotonic clock."""
        ...

    def stop(self) -> None:
        """Make the client give up what it plays; its last rows and its end still come."""
        ...

    def close(self) -> None: ...


def jobs_for(spec: RunSpec, plan: Plan | None, endpoint: EndpointConfig, count: int) -> list[Job]:
    """A job for each of so many clients. Raises BadInput (TL202) for a load that cannot be split."""
    refuse_unshared(spec, count)
    return [Job(spec, plan, Share(index, count), endpoint) for index in range(count)]


def await_ready(clients: Sequence[ClientHandle]) -> None:
    """Wait until each has reached the server. Raises what `fail` raises."""
    _from_each(clients, Ready, _START_S, "start")


def calibrated(clients: Sequence[ClientHandle], rate_per_s: float | None, answer_tokens: int) -> Calibration:
    """Calibrate all of them at the same time, each against a null server of its own, at its part of the rate.

    Their ceilings add up; of delays the longest counts.
    """
    for client in clients:
        client.say(Calibrate(None if rate_per_s is None else rate_per_s / len(clients), answer_tokens))
    calibrations = [report.calibration for report in _from_each(clients, Calibrated, _CALIBRATE_S, "calibrate")]
    return Calibration(
        ceiling_tokens_per_s=sum(calibration.ceiling_tokens_per_s for calibration in calibrations),
        added_latency_s=max(calibration.added_latency_s for calibration in calibrations),
        lag_s_p99=max(calibration.lag_s_p99 for calibration in calibrations),
        clients=len(calibrations),
    )


def fail(name: str, failed: Failed) -> None:
    """Raise what a client could not get over, under the kind of error it had."""
    kind = BadInput if failed.exit_code == BadInput.exit_code else ExecutorFailed
    raise kind(f"{name}: {failed.sentence}", code=failed.code)


def _from_each(clients: Sequence[ClientHandle], wanted: type[_Told], patience_s: float, task: str) -> list[_Told]:
    reports_by_client: dict[int, _Told] = {}
    deadline_s = time.monotonic() + patience_s
    while len(reports_by_client) < len(clients):
        for index, client in enumerate(clients):
            try:
                reports = client.receive()
            except Lost as lost:
                raise ExecutorFailed(f"{client.name} {lost} before it could {task}", code="TL330") from None
            for report in reports:
                if isinstance(report, Failed):
                    fail(client.name, report)
                if isinstance(report, wanted):
                    reports_by_client[index] = report
        if time.monotonic() > deadline_s:
            late = next(client.name for index, client in enumerate(clients) if index not in reports_by_client)
            raise ExecutorFailed(f"{late} did not {task} within {patience_s:g} s", code="TL330")
        time.sleep(_POLL_S)
    return [reports_by_client[index] for index in range(len(clients))]
