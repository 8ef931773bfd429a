"""What an executor is: two small protocols, three methods each. They return marks and counts, never metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twinlens.record.facts import Facts
from twinlens.record.request import Request
from twinlens.record.step import Marks
from twinlens.schedule.ask import Schedule
from twinlens.spec.study import RunSpec

Rows = Callable[[Request], None]
"""Takes each request as it ends."""
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
