"""Events of the Trainer of transformers, which those of trl send too. Needs transformers."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any, Protocol

from transformers import TrainerCallback

from twinlens.executors.own_loop.step_log import StepLog


class Watched(Protocol):
    """A loop that is watched. `log` is there while `is_recording`."""

    log: StepLog

    @property
    def is_recording(self) -> bool: ...
    def guard(self, call: Callable[..., None]) -> Callable[..., None]: ...
    def leave(self, why: str | None) -> None: ...


Begin = Callable[[Any, Any], Watched]
"""Begins to watch a model and an optimizer."""


def trainer_events(begin: Begin) -> TrainerCallback:
    """A callback that watches each `train()`."""
    return TrainerEvents(begin)


class TrainerEvents(TrainerCallback):  # type: ignore[misc]
    """Begins and ends the watching, and tells of data and evaluations; the hooks on the model do the rest."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self.loop: Watched | None = None
        self.since: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **has: Any) -> None:
        self.leave("the next training began")
        self.loop = self._begin(has["model"], has["optimizer"])
        atexit.register(self.leave, "the program ended before the training did")
        self._mark()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.loop is not None:
            loop, since = self.loop, self.since
            loop.guard(lambda: loop.log.spent("data", since, loop.log.moments.now()))()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._mark()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if not any(str(name).startswith("eval_") for name in logs or ()):  # else an evaluation is not over
            self._mark()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A save has ended: it began where the step, its log or its evaluation did."""
        if self.loop is not None:
            loop, since = self.loop, self.since
            loop.guard(lambda: loop.log.spent("checkpoint", since, loop.log.moments.now()))()
            self._mark()

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        if self.loop is not None:
            loop, since, loss = self.loop, self.since, (metrics or {}).get("eval_loss")
            loop.guard(lambda: loop.log.evaluated(since, loop.log.moments.now(), 0, 0, loss))()
            self._mark()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.leave(None)

    def leave(self, why: str | None) -> None:
        """End the run: whole, or interrupted for a reason."""
        atexit.unregister(self.leave)
        loop, self.loop = self.loop, None
        if loop is not None:
            loop.leave(why)

    def _mark(self) -> None:
        if self.loop is not None and self.loop.is_recording:
            self.since = self.loop.log.moments.now()
