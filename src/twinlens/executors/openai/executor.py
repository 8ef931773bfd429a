"""A server that speaks the OpenAI API, already up somewhere: `executor.options.url`.

player.py plays a schedule against it, over http_client/event_loop.py; row.py decides what counts as an answer,
discovery.py asks the server about itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

from twinlens.errors import BadInput
from twinlens.executors.http_client.connection import Address
from twinlens.executors.http_client.connections import OutOfResources
from twinlens.executors.http_client.event_loop import EventLoop
from twinlens.executors.http_client.limits import refuse_too_many, too_many
from twinlens.executors.openai.clients import client_pool_of
from twinlens.executors.openai.compared import UNKNOWN, Weights, fidelity_of
from twinlens.executors.openai.discovery import find_out, reachable
from twinlens.executors.openai.player import Player
from twinlens.executors.openai.request_writer import EndpointConfig, RequestWriter
from twinlens.executors.openai.server_facts import facts_of
from twinlens.executors.openai.target import Target, target_of
from twinlens.executors.openai.task_requests import for_task
from twinlens.executors.openai.undisturbed import undisturbed
from twinlens.executors.protocol import OnResponse, Say, TakesRow
from twinlens.record.client import ClientRecord
from twinlens.record.executor.facts import Facts
from twinlens.schedule.content.prompt import Words, words_of
from twinlens.schedule.request import Schedule
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.length import Free
from twinlens.spec.workload.workload import Images, InferenceWorkload


class OpenAIServer:
    """`open` for a spec with the url in its options; a launcher that knows its server uses `attach`."""

    def __init__(self) -> None:
        self._loop: EventLoop | None = None
        self._origin_ns: int | None = None
        self._on_response: OnResponse | None = None

    def open(self, spec: RunSpec, say: Say) -> Facts:
        return self.attach(target_of("openai-http", spec.executor.options), spec, say)

    def attach(self, target: Target, spec: RunSpec, say: Say, weights: Weights = UNKNOWN) -> Facts:
        """Ask the server who it is and what it accepts, compare it with its reference, and get ready to play.

        `weights`: those that it was given, where they are known. Raises BadInput and ExecutorFailed.
        """
        workload = spec.workload
        assert isinstance(workload, InferenceWorkload)
        if isinstance(workload.data, Images):
            raise BadInput(
                "images cannot be sent to an OpenAI server; take a language model, or kserve-http", code="TL202"
            )
        if client_pool_of(spec.executor.options).is_one:  # else each client sees for itself
            refuse_too_many(max(spec.point.concurrency or 1, spec.point.in_flight or 1))
        say("reading the server's facts")
        words = words_of(workload.prompts)
        if isinstance(workload.output_tokens, Free):
            target = replace(target, force_length=False)
        discovery = find_out(for_task(target, workload.task), words, spec)
        requests = discovery.requests
        if isinstance(workload.output_tokens, Free) and isinstance(requests, RequestWriter):
            requests = requests.ending_freely()
        self.equip(EndpointConfig(target, requests), discovery.address)
        facts = facts_of(target, discovery, spec)
        rows, compared = fidelity_of(target, discovery, weights, spec, say)
        return replace(facts, fidelity=rows, compared=compared)

    def endpoint(self) -> EndpointConfig:
        """The config with which another client can ask this server too."""
        return self._endpoint

    def connect(self, endpoint: EndpointConfig) -> None:
        """Connect to an endpoint that another client found out, instead of `attach`, asking the server nothing. Raises
        ExecutorFailed where it cannot be reached from here."""
        self.equip(endpoint, reachable(endpoint.target))

    @property
    def network_client(self) -> OpenAIServer:
        """Itself: all it does is ask."""
        return self

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
