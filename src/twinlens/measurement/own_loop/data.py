"""A loader whose waits are timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any


class Data:
    """The batches of a loader, unchanged. `waiting` is around each wait; `offer` is told of each batch."""

    def __init__(
        self,
        loader: Iterable[Any],
        waiting: Callable[[], AbstractContextManager[None]],
        offer: Callable[[Any], None],
    ) -> None:
        self._loader, self._waiting, self._offer = loader, waiting, offer

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        with self._waiting():
            batches = iter(self._loader)
        while True:
            with self._waiting():
                batch = next(batches, _OVER)
            if batch is _OVER:
                return
            self._offer(batch)
            yield batch


_OVER = object()
