"""Time within calls that were replaced by timed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Spent:
    """Nanoseconds within the timed calls so far, by `clock_ns`."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self.clock_ns, self.ns = clock_ns, 0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, added up."""

        def added(*given: Any, **named: Any) -> Any:
            begin_ns = self.clock_ns()
            result = call(*given, **named)
            self.ns += self.clock_ns() - begin_ns
            return result

        return added
