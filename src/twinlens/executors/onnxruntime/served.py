"""onnxruntime-genai's Engine as a server in this process: requests arrive at any time, and it batches them itself.

On a processor its batches are static: a request that arrives while one runs waits until all of that batch have ended
(seen with 0.18; its paged cache, which lets requests join, needs CUDA or WebGPU).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai as genai

from twinlens.executors.in_process.engine import Evidence, Runtime
from twinlens.executors.in_process.stepping import Gained, Running, Stepper
from twinlens.executors.onnxruntime.decoder import RUNTIME, OrtDecoder, session_options
from twinlens.executors.protocol import TakesRow
from twinlens.record.executor.record import observed, unknown
from twinlens.schedule.request import Schedule, ScheduledRequest
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec

MOST_TOGETHER = 8
_EVENTS = 64
_NOT_ENDED = genai.FinishReason.NONE


class OrtServed:
    """Plays schedules to one Engine, in this thread: what is due is begun, then the engine does one step for all."""

    def __init__(self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> None:
        self._beside = partial(OrtDecoder, folder, spec, ref, threads)
        self._decoder: OrtDecoder | None = None
        self._most = int(spec.executor.options.get("most_together", MOST_TOGETHER))
        config = genai.Config(str(folder))
        batching = {"engine": {"static_batching": {"max_batch_size": self._most}}}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session_options(threads)}}} | batching))
        self._engine: Any = genai.Engine(genai.Model(config))
        self._events = self._engine.create_event_buffer(_EVENTS)
        self._stepper: Stepper | None = None

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        return self._of_evidence().answer(batch, tokens)

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        return self._of_evidence().log_probabilities(one)

    def evidence(self, batch: np.ndarray) -> Evidence:
        """Of the same export, run as one batch: the engine runs the same graph."""
        found = self._of_evidence().evidence(batch)
        together = int(self._engine.get_capabilities().configured_max_batch_size)
        facts = {
            "software.runtime.name": observed("onnxruntime-genai, Engine in this process", "the package"),
            "serving.batching": observed("static: a batch ends before the next begins", "its events, version 0.18"),
            "serving.max_sequences": observed(together, "Engine.get_capabilities"),
            "point.batch_achieved": unknown("the engine does not say how many sequences a step had"),
        }
        return replace(found, facts=dict(found.facts) | facts)

    def stepper(self, prompt: Callable[[ScheduledRequest], np.ndarray]) -> Stepper:
        """A player with a clock of its own; `prompt` gives the token ids of a request, (length,)."""
        return Stepper(lambda scheduled: self._begun(scheduled, prompt(scheduled)), self._stepped)

    def play(self, schedule: Schedule, rows: TakesRow, prompt: Callable[[ScheduledRequest], np.ndarray]) -> None:
        """As `Server.play`; `prompt` as for `stepper`."""
        self._decoder = None  # its copy of the weights was for evidence
        if self._stepper is None:
            self._stepper = self.stepper(prompt)
        self._stepper.play(schedule, rows)

    def _of_evidence(self) -> OrtDecoder:
        """The same export without the engine, loaded when it is first wanted: it is no part of the engine's load."""
        if self._decoder is None:
            self._decoder = self._beside()
        return self._decoder

    def close(self) -> None:
        self._engine = self._events = self._decoder = self._stepper = None

    def _begun(self, scheduled: ScheduledRequest, ids: np.ndarray) -> Any:
        handle = self._engine.create_request()
        turn = genai.TurnOptions(handle)
        turn.set_max_generated_tokens(scheduled.output_tokens)
        turn.set_min_generated_tokens(scheduled.output_tokens)
        turn.set_do_sample(False)
        handle.begin_turn(ids.astype(np.int32), turn)
        return handle

    def _stepped(self, running: list[Running]) -> list[Gained]:
        events, gained = self._events, list[Gained]()
        self._engine.run(events)
        for place in range(len(events)):  # to iterate over it ends in an exception, which takes longer than all of this
            event = events[place]
            one = running[0] if len(running) == 1 else _of(event.request, running)
            is_ended = event.finish_reason != _NOT_ENDED
            tokens = 1
            if is_ended:  # this event may bring no token
                tokens = int(one.left > sum(count for each, count, _ in gained if each is one))
                one.handle.close()
            gained.append((one, tokens, is_ended))
        return gained


def _of(handle: Any, running: list[Running]) -> Running:
    return next(each for each in running if each.handle == handle)


SERVED = Runtime(RUNTIME.name, RUNTIME.made_by, RUNTIME.make, RUNTIME.linears, OrtServed)
