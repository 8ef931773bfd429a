"""Requests that wait while all backends are full: so many, so long, first come first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from twinlens.gateway.refusal import Refusal

T = TypeVar("T")
_FULL = 429
_LOOK_S = 0.25
"""The first in the queue looks again so often: a backend may be free for another reason than a request's end."""


class Queue:
    """The queue of one process. `places`: 0 is none; `longest_s`: how long one may wait."""

    def __init__(self, places: int, longest_s: float) -> None:
        self.places, self.longest_s = places, longest_s
        self._waiting: deque[asyncio.Event] = deque()
        self._free_in_s = 1.0

    def __len__(self) -> int:
        return len(self._waiting)

    def freed(self) -> None:
        """A request is over: the first that waits looks again."""
        if self._waiting:
            self._waiting[0].set()

    async def turn(self, take: Callable[[], T]) -> T:
        """What `take` gives, once it does not say that all are full (Refusal 429).

        Raises its last Refusal where no place is left, or none became free in time. A client that leaves (cancelled)
        frees its place.
        """
        if not self._waiting:
            try:
                return take()
            except Refusal as full:
                if full.status != _FULL or not self.places:
                    raise
                last = self._noted(full)
        elif len(self._waiting) >= self.places:
            raise self._no_place()
        else:
            last = Refusal(_FULL, "every backend is full")
        return await self._wait(take, last)

    async def _wait(self, take: Callable[[], T], last: Refusal) -> T:
        mine, loop = asyncio.Event(), asyncio.get_running_loop()
        over_s = loop.time() + self.longest_s
        self._waiting.append(mine)
        try:
            while (left_s := over_s - loop.time()) > 0:
                try:
                    async with asyncio.timeout(min(left_s, _LOOK_S)):
                        await mine.wait()
                except TimeoutError:
                    pass
                mine.clear()
                if self._waiting[0] is mine:
                    try:
                        return take()
                    except Refusal as refused:
                        if refused.status != _FULL:
                            raise
                        last = self._noted(refused)
            raise Refusal(_FULL, f"{last.sentence}; none was free within {self.longest_s:g} s",
                          code=last.code, retry_after_s=last.retry_after_s)  # fmt: skip
        finally:
            self._waiting.remove(mine)
            self.freed()  # whoever is first now may have been woken in vain, or another place may be free too

    def _noted(self, full: Refusal) -> Refusal:
        self._free_in_s = full.retry_after_s or self._free_in_s
        return full

    def _no_place(self) -> Refusal:
        """One backend is free in so many seconds; as many more pass for each that waits before."""
        return Refusal(_FULL, f"every backend is full, and {self.places} requests wait already",
                       retry_after_s=self._free_in_s * (1 + len(self._waiting)))  # fmt: skip
