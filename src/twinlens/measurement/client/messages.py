"""Messages between a run and its clients, on every transport."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from twinlens.network.dialect.endpoint import EndpointConfig
from twinlens.record.arrow import batch_of
from twinlens.record.client import Calibration, ClientRecord
from twinlens.record.request import REQUEST_SCHEMA, Request
from twinlens.schedule.plan import Plan
from twinlens.schedule.split import Share
from twinlens.spec.study import RunSpec

_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Job:
    """One client's part of a run. `plan`: the whole one, None for a closed loop; `share` says which part of it."""

    spec: RunSpec
    plan: Plan | None
    share: Share
    endpoint: EndpointConfig


@dataclass(frozen=True, slots=True)
class Calibrate:
    """Play against a null server of your own, at this rate, and with answers as long as those to come."""

    rate_per_s: float | None
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class Play:
    """Play your share; time zero is this moment of your own monotonic clock."""

    origin_ns: int


Instruction = Calibrate | Play


@dataclass(frozen=True, slots=True)
class Ready:
    """The client has reached the server and waits for an order."""

    pid: int


@dataclass(frozen=True, slots=True)
class Calibrated:
    calibration: Calibration


@dataclass(frozen=True, slots=True)
class Some:
    """Rows that have ended (an Arrow stream, maybe empty): all of those that ended before `upto_ns` of the run."""

    rows: bytes
    upto_ns: int


@dataclass(frozen=True, slots=True)
class PlayEnded:
    """The client has played its share, or was told to stop, and all rows were sent before this. `cpu_s`: what that
    took."""

    record: ClientRecord
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The client cannot go on, for a reason that is no accident: the sentence, code and exit code of a
    TwinlensError."""

    sentence: str
    code: str
    exit_code: int


Report = Ready | Calibrated | Some | PlayEnded | Failed


class Lost(Exception):
    """A client is gone without having said so; the words say what is known of how."""


def packed(rows: list[Request]) -> bytes:
    """Rows as an Arrow stream, a few at a time: other threads get the interpreter in between."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, REQUEST_SCHEMA) as stream:
        for begin in range(0, len(rows), _AT_ONCE):
            batch = [
                {name: getattr(row, name) for name in REQUEST_SCHEMA.names} for row in rows[begin : begin + _AT_ONCE]
            ]
            stream.write_batch(batch_of(batch, REQUEST_SCHEMA))
    return bytes(sink.getvalue())


def unpacked(rows: bytes) -> pa.Table:
    """The inverse of `packed`, as a table with REQUEST_SCHEMA."""
    return pa.ipc.open_stream(rows).read_all()
