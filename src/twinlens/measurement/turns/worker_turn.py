"""A worker's side of taking turns: it waits for its turn blocked on a pipe, and says when it has had it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

Tell = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Turn:
    """Work as slice `number`: for `seconds`, or as many steps or batches as `observations` says.

    A slice that ends by the clock ends sooner after slow rows, and its rate would be a little too low; so the time
    decides while warming up only, and then each point has slices of one size.
    """

    number: int
    seconds: float
    observations: int | None = None


@dataclass(frozen=True, slots=True)
class Worked:
    """A turn that was had: seconds from its first row's begin to its last one's end, and how many steps or batches."""

    seconds: float
    observations: int


class TurnQueue:
    """`next` blocks until there is a turn. `waited_s`, `waited_cpu_s`: how long that took in all, and what it cost
    this process in processor time; both without the first wait, which is one for the others to get ready."""

    def __init__(self, inbox: TextIO, tell: Tell) -> None:
        self._inbox, self._tell = inbox, tell
        self._waits = 0
        self.waited_s = self.waited_cpu_s = 0.0

    def wait_to_open(self) -> None:
        """Wait until this run may be opened: one at a time, as opening takes measurements. Raises KeyboardInterrupt."""
        if not self._inbox.readline():
            raise KeyboardInterrupt

    def next(self) -> Turn | None:
        """The next turn; None when there will be no more. Raises KeyboardInterrupt when nobody is left to give one."""
        if not self._waits:
            self._tell(ready=True)
        begin_s, cpu_s = time.monotonic(), time.process_time()
        line = self._inbox.readline()
        if self._waits:
            self.waited_s += time.monotonic() - begin_s
            self.waited_cpu_s += time.process_time() - cpu_s
        self._waits += 1
        if not line:
            raise KeyboardInterrupt
        order: dict[str, Any] = json.loads(line)
        return None if order.get("over") else Turn(order["turn"], order["seconds"], order.get("observations"))

    def had(self, turn: Turn, worked: Worked, rows: int) -> None:
        """Give the turn back."""
        self._tell(had=turn.number, worked_s=worked.seconds, observations=worked.observations, rows=rows)
