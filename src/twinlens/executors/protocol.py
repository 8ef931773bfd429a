"""The protocols of an executor: it returns marks and counts, never metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from twinlens.record.compliance import Response
from twinlens.record.executor.facts import Facts
from twinlens.record.request import Request
from twinlens.record.step import Marks
from twinlens.schedule.request import Schedule, ScheduledRequest
from twinlens.spec.study import RunSpec

if TYPE_CHECKING:
    from twinlens.executors.running import Running

Rows = Callable[[Request], None]
"""Takes each request as it ends."""
OnResponse = Callable[[ScheduledRequest, Request, Response], None]
"""Takes each request as it ends, with what was asked and what the answer said."""
Say = Callable[[str], None]
"""Takes a short phrase about what is going on, for people who wait."""


class Trainer(Protocol):
    """Runs optimizer steps."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        """Build everything and report what really runs. Raises BadInput for what cannot be run here."""
        ...

    def step(self) -> Marks:
        """Do one step (or one evaluation that is due); times count from the first call. Raises StopIteration at the end
        of what there is (a recorded run)."""
        ...

    def close(self) -> None:
        """Release everything; called once, whatever happened."""
        ...


class Server(Protocol):
    """Answers requests."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        """Build everything and report what really runs. Raises BadInput for what cannot be run here."""
        ...

    def play(self, schedule: Schedule, rows: Rows) -> None:
        """Start what is due until the schedule is over, reporting each request as it ends; may be called again, and
        times go on counting from the first call."""
        ...

    def close(self) -> None:
        """Release everything; called once, whatever happened."""
        ...


class Launched(Protocol):
    """A server process, in the hands of whoever started it."""

    @property
    def running(self) -> Running:
        """Its address and what is known of it; may be handed to other processes."""
        ...

    def is_well(self) -> bool:
        """Whether it lives and answers."""
        ...

    def stop(self) -> None:
        """End it and all it started; may be called again."""
        ...


class Launcher(Protocol):
    """What a Server that starts its own has besides, so that runs can share one: starting may take minutes."""

    def key(self, spec: RunSpec) -> str:
        """Equal for specs that the same server serves."""
        ...

    def launch(self, spec: RunSpec, log: Path, say: Say) -> Launched:
        """Start one and wait until it is ready. Raises BadInput and ExecutorFailed, and leaves nothing running then."""
        ...

    def join(self, server: Running) -> None:
        """Before `open`: ask this server, which is up, and leave its end to its owner."""
        ...
