"""A loader whose waits are timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Data:
    """The batches of a loader, unchanged. `now` is asked before each wait, `waited` is told of it afterwards, `offer`
    of each batch: plain calls, as a context manager around each wait would cost several times as much."""

    def __init__(
        self,
        loader: Iterable[Any],
        now: Callable[[], Any],
        waited: Callable[[Any], None],
        offer: Callable[[Any], None],
    ) -> None:
        self._loader, self._now, self._waited, self._offer = loader, now, waited, offer

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        began = self._now()
        batches = iter(self._loader)
        while True:
            batch = next(batches, _OVER)
            self._waited(began)
            if batch is _OVER:
                return
            self._offer(batch)
            yield batch
            began = self._now()


_OVER = object()
