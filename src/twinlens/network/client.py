"""The client of one server: it plays schedules in real time, in this process, and tells how it did.

One thread: event_loop.py has the connections, player.py the schedule.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator

from twinlens.network.dialect.endpoint import EndpointConfig
from twinlens.network.discovery import reachable
from twinlens.network.event_loop import EventLoop
from twinlens.network.limits import too_many
from twinlens.network.player import Player
from twinlens.network.pool import OutOfResources
from twinlens.network.target import Address
from twinlens.record.client import ClientRecord
from twinlens.schedule.prompt import Words
from twinlens.schedule.request import OnResponse, Schedule, TakesRow

_SWITCH_S = 0.0005
_GARBAGE = 50_000
_calm = [False]  # whether somebody in this process is inside `undisturbed`


class Client:
    """`equip` it with an endpoint whose address is known, or `connect` it to one that another client found out."""

    def __init__(self) -> None:
        self._loop: EventLoop | None = None
        self._origin_ns: int | None = None
        self._on_response: OnResponse | None = None

    def endpoint(self) -> EndpointConfig:
        """The config with which another client can ask this server too."""
        return self._endpoint

    def connect(self, endpoint: EndpointConfig) -> None:
        """Connect to an endpoint that another client found out, instead of `attach`, asking the server nothing. Raises
        ExecutorFailed where it cannot be reached from here."""
        self.equip(endpoint, reachable(endpoint.target))

    def begin_at(self, origin_ns: int) -> None:
        """Let time zero be this moment of the monotonic clock, which clients that play together share."""
        self._origin_ns = origin_ns

    @property
    def origin_ns(self) -> int | None:
        """Time zero on the monotonic clock, from which rows count; None before the first `play`."""
        return self._origin_ns

    def equip(self, endpoint: EndpointConfig, address: Address) -> None:
        """Get ready to play against an endpoint whose address is known."""
        target = endpoint.target
        self._endpoint = endpoint
        self._loop = EventLoop(
            address,
            timeout_ns=round(target.timeout_s * 1e9),
            most_json_bytes=endpoint.requests.most_json_bytes,
            stamps=target.kernel_stamps,
        )
        self._player = Player(self._loop, endpoint.requests)

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        assert self._loop is not None
        with undisturbed():  # before time zero: it takes 10 ms, in which the first requests would be late
            if self._origin_ns is None:
                self._origin_ns = time.monotonic_ns()
            try:
                self._player.play(schedule, rows, self._origin_ns, self._on_response)
            except OutOfResources as error:
                self._player.give_up("the client ran out of resources")
                raise too_many(self._player.under_way, str(error)) from error
            except KeyboardInterrupt:
                self._player.give_up("the client was interrupted")
                raise

    @property
    def forces_length(self) -> bool:
        """Whether requests say that an answer may not end before its limit."""
        return self._player.writer.forces_length

    def on_response(self, on_response: OnResponse | None) -> None:
        """Hand every answer, as it ends, to `on_response` too, with what it said: rows keep no text. None: no
        longer."""
        self._on_response = on_response

    @contextlib.contextmanager
    def asking(self, *, words: Words | None = None, in_one_piece: bool = False) -> Iterator[None]:
        """Meanwhile ask with other words, or for answers that are not streamed."""
        usual = writer = self._player.writer
        if words is not None:
            writer = writer.quoting(words)
        self._player.writer = writer.in_one_piece() if in_one_piece else writer
        try:
            yield
        finally:
            self._player.writer = usual

    def client(self) -> ClientRecord:
        """How the client itself has done so far."""
        assert self._loop is not None
        counts = self._loop.counts
        stamped = counts.unstamped_connections == 0 and counts.connects > 0
        return ClientRecord(
            stamps="kernel" if stamped else "client",
            reads=counts.reads,
            merged_reads=self._player.merged,
            connects=counts.connects,
            retries=counts.retries,
            gather_ns=counts.gather_ns,
            clock_steps=self._loop.offset.steps,
            lags=self._player.lags,
        )

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()
            self._loop = None


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Other threads hand the interpreter back soon, and collecting garbage does not walk over what was there before.

    Once is enough: inside another one nothing is done, so that a load of many slices collects before the first only.
    What a caller froze stays frozen: Python can only unfreeze all objects, so nothing more is frozen then.
    """
    if _calm[0]:
        yield
        return
    switch_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    frozen_by_caller = gc.get_freeze_count() > 0
    try:
        _calm[0] = True
        sys.setswitchinterval(_SWITCH_S)
        gc.collect()
        if not frozen_by_caller:
            gc.freeze()
        gc.set_threshold(_GARBAGE, *thresholds[1:])
        yield
    finally:
        _calm[0] = False
        gc.set_threshold(*thresholds)
        if not frozen_by_caller:
            gc.unfreeze()
        sys.setswitchinterval(switch_s)
