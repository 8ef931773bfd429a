"""Look at a run under load while it goes on, and end it when its answer is decided."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from twinlens.record.arrow import RowWriter, read_rows
from twinlens.record.request import REQUEST_SCHEMA, Requests
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.serving.looks import looks_s, undecided
from twinlens.stats.summary.serving import look


class Looks:
    """Told of each row as it ends; `lost` is then None, or that the run is decided and no more is to be asked.

    A look reads the rows back in a thread of its own, while requests go on: none of them waits for it. `say` is told
    what is undecided.
    """

    def __init__(self, spec: RunSpec, say: Callable[[str], None]) -> None:
        self._spec, self._say = spec, say
        self._times_s = looks_s(spec.protocol)
        self._next = 0
        self._found: Future[str] | None = None
        self._thread = ThreadPoolExecutor(1) if len(self._times_s) > 1 else None
        self.lost: str | None = None

    @property
    def most_s(self) -> float:
        return self._times_s[-1]

    def see(self, end_ns: int, rows: RowWriter) -> None:
        """A request has ended, `end_ns` after the start of the run, and is among `rows`."""
        if self._thread is None or self.lost:
            return
        if self._found is not None and self._found.done():
            self._hear(self._found.result())
        elif self._found is None and self._next < len(self._times_s) - 1 and end_ns >= 1e9 * self._times_s[self._next]:
            rows.flush()
            self._found = self._thread.submit(_undecided, self._spec, rows)

    def _hear(self, missing: str) -> None:
        self._found = None
        if not missing:
            self.lost = "decided"
            return
        self._say(f"after {self._times_s[self._next]:g} s undecided: {missing}; {self.most_s:g} s at most")
        self._next += 1  # the last look is that of the summary

    def close(self) -> None:
        """End the thread; a look that is not over is waited for."""
        if self._thread is not None:
            self._thread.shutdown()


@contextlib.contextmanager
def looks_at(spec: RunSpec, say: Callable[[str], None]) -> Iterator[Looks]:
    """Looks at a run; a look that is not over is waited for."""
    looks = Looks(spec, say)
    try:
        yield looks
    finally:
        looks.close()


def _undecided(spec: RunSpec, rows: RowWriter) -> str:
    requests = Requests.from_table(read_rows(rows.folder / "requests.arrows", REQUEST_SCHEMA))
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    window, metrics = look(requests, spec)
    return undecided(metrics, window, workload.slo, spec.protocol)
