"""onnxruntime-genai's Engine as a server in this process: requests arrive at any time, and it batches them itself.

On a processor its batches are static: a request that arrives while one runs waits until all of that batch have ended
(seen with 0.18; its paged cache, which lets requests join, needs CUDA or WebGPU).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai as genai

from twinlens.clock import MonotonicClock
from twinlens.executors.in_process.engine import Evidence, Runtime
from twinlens.executors.onnxruntime.decoder import RUNTIME, OrtDecoder, session_options
from twinlens.executors.protocol import TakesRow
from twinlens.record.executor.record import observed, unknown
from twinlens.record.request import Request
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec

MOST_TOGETHER = 8
_EVENTS = 64


@dataclass(slots=True)
class _Running:
    """A request that the engine has: its handle must live as long as its answer is waited for."""

    scheduled: ScheduledRequest
    handle: Any
    sent_ns: int
    stamps: list[int] = field(default_factory=list)


class OrtServed:
    """Plays schedules to one Engine, in this thread: what is due is begun, then the engine does one step for all."""

    def __init__(self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> None:
        self._decoder: OrtDecoder | None = OrtDecoder(folder, spec, ref, threads)
        self._most = int(spec.executor.options.get("most_together", MOST_TOGETHER))
        config = genai.Config(str(folder))
        batching = {"engine": {"static_batching": {"max_batch_size": self._most}}}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session_options(threads)}}} | batching))
        self._engine: Any = genai.Engine(genai.Model(config))
        self._events = self._engine.create_event_buffer(_EVENTS)
        self._origin_ns: int | None = None

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        assert self._decoder is not None
        return self._decoder.answer(batch, tokens)

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        assert self._decoder is not None
        return self._decoder.log_probabilities(one)

    def evidence(self, batch: np.ndarray) -> Evidence:
        """Of the same export, run as one batch: the engine runs the same graph."""
        assert self._decoder is not None
        found = self._decoder.evidence(batch)
        together = int(self._engine.get_capabilities().configured_max_batch_size)
        facts = {
            "software.runtime.name": observed("onnxruntime-genai, Engine in this process", "the package"),
            "serving.batching": observed("static: a batch ends before the next begins", "its events, version 0.18"),
            "serving.max_sequences": observed(together, "Engine.get_capabilities"),
            "point.batch_achieved": unknown("the engine does not say how many sequences a step had"),
        }
        return replace(found, facts=dict(found.facts) | facts)

    def play(self, schedule: Schedule, rows: TakesRow, prompt: Callable[[ScheduledRequest], np.ndarray]) -> None:
        """As `Server.play`; `prompt` gives the token ids of a request, (length,)."""
        self._decoder = None  # its copy of the weights was for evidence
        if self._origin_ns is None:
            self._origin_ns = time.monotonic_ns()
        origin_ns, clock = self._origin_ns, MonotonicClock()
        running: list[_Running] = []
        while True:
            for scheduled in schedule.due(clock.now_ns() - origin_ns):
                running.append(self._begun(scheduled, prompt(scheduled), origin_ns))
            if running:
                for row in self._stepped(running, origin_ns):
                    rows(row)
                    schedule.done(row)
            elif (due_ns := schedule.next_due_ns()) is not None:
                clock.sleep_until_ns(origin_ns + due_ns)
            else:
                return

    def close(self) -> None:
        self._engine = self._events = self._decoder = None

    def _begun(self, scheduled: ScheduledRequest, ids: np.ndarray, origin_ns: int) -> _Running:
        handle = self._engine.create_request()
        turn = genai.TurnOptions(handle)
        turn.set_max_generated_tokens(scheduled.output_tokens)
        turn.set_min_generated_tokens(scheduled.output_tokens)
        turn.set_do_sample(False)
        sent_ns = time.monotonic_ns() - origin_ns
        handle.begin_turn(ids.astype(np.int32), turn)
        return _Running(scheduled, handle, sent_ns)

    def _stepped(self, running: list[_Running], origin_ns: int) -> list[Request]:
        """One step of the engine; rows of the requests that ended in it, which are taken out of `running`."""
        self._engine.run(self._events)
        now_ns = time.monotonic_ns() - origin_ns
        ended: list[Request] = []
        for event in list(self._events):
            one = next(each for each in running if each.handle == event.request)
            if str(event.finish_reason).endswith("NONE") or len(one.stamps) < one.scheduled.output_tokens:
                one.stamps.append(now_ns)
            if not str(event.finish_reason).endswith("NONE"):
                running.remove(one)
                one.handle.close()
                ended.append(_row(one))
        return ended


def _row(one: _Running) -> Request:
    whole = len(one.stamps) == one.scheduled.output_tokens
    return request_of(
        one.scheduled,
        sent_ns=one.sent_ns,
        chunk_ns=tuple(one.stamps),
        chunk_tokens=(1,) * len(one.stamps),
        end_ns=one.stamps[-1],
        output_tokens=len(one.stamps),
        outcome="ok" if whole else "cut_off",
    )


SERVED = Runtime(RUNTIME.name, RUNTIME.made_by, RUNTIME.make, RUNTIME.linears, OrtServed)
