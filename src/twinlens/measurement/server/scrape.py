"""Reading the server's own metrics page while a run is measured: one row per reading, from a thread of its own.

What a reading costs here, for a page of vLLM's size (95 KB, 970 lines): 1.2 ms of processor time in all. Parsing the
page whole would be 14 ms; cut down first it is 0.6 ms. The interpreter is handed over every 0.1 ms meanwhile: beside a
load of 400 requests/s, requests that are due within 2 ms of a reading leave later by 0.1 to 0.2 ms (median; 0.4 to
0.6 ms if it is not handed over, which is the client's switch interval), and at one reading every half second those are
less than one in a hundred. So a thread is enough, and a process of its own would only cost more to start.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from twinlens.executors.protocol import NetworkClient
from twinlens.measurement.server.page import Columns, NoPage, ServerPage, pause, sample_of
from twinlens.record.codec import encode
from twinlens.record.samples import ServerSample
from twinlens.record.store import open_server, update_run
from twinlens.spec.study import RunSpec

# A server renders its page in the process that streams the answers (vLLM on two shared cores: 5 to 12 ms for 50 KB):
# more often would disturb what is measured.
LEAST_PERIOD_S = 0.5
_LAST_WAIT_S = 8.0

SampleSink = Callable[[ServerSample], None]
TimeOrigin = Callable[[], int | None]


class Scraper:
    """Reads a page every `period_s` and hands one row to `sink`; a context manager around the run, after `begin`.

    `origin`: the start of the run on the monotonic clock, None while it has not begun; of what was read before only the
    last row is kept, with a time below 0. The last row is read after the block has ended. A page that cannot be read is
    a row with its reason; a sink that raises ends the reading, and `error` says why: it never ends a run.
    """

    def __init__(self, page: ServerPage, sink: SampleSink, period_s: float, origin: TimeOrigin) -> None:
        self._page, self._sink, self._origin = page, sink, origin
        self.period_s = max(LEAST_PERIOD_S, period_s)
        self._before: ServerSample | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="server metrics", daemon=True)
        self.samples = self.failed = self.spent_ns = 0
        self.error: str | None = None

    def begin(self) -> str | None:
        """The first reading, before anything is sent; why there is none, where the server has no page."""
        try:
            sample = self._sample()
        except Exception as error:  # the boundary between an observer and what it observes
            return f"{type(error).__name__}: {str(error)[:200]}"
        self._before = sample
        return sample.error

    def __enter__(self) -> Scraper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_LAST_WAIT_S)
        if not self._thread.is_alive():
            self._once()
        self._page.close()

    def __json__(self) -> dict[str, Any]:
        """The cost of reading, and how often it failed."""
        return {
            "url": self._page.url,
            "reason": self.error,
            "period_s": self.period_s,
            "samples": self.samples,
            "failed": self.failed,
            "cpu_s": self.spent_ns / 1e9,
        }

    def _loop(self) -> None:
        begin_s = time.monotonic()
        while self.error is None:
            passed_s = time.monotonic() - begin_s
            if self._ended.wait(self.period_s - passed_s % self.period_s):
                return
            self._once()

    def _once(self) -> None:
        spent_ns = time.thread_time_ns()
        try:
            self._take(self._sample())
        except Exception as error:  # the boundary between an observer and what it observes
            self.error = f"{type(error).__name__}: {error}"
        self.spent_ns += time.thread_time_ns() - spent_ns

    def _sample(self) -> ServerSample:
        """One reading, its time absolute."""
        asked_ns = time.monotonic_ns()
        columns: Columns = {}
        why = None
        try:
            body = self._page.fetch()
            took_ns = time.monotonic_ns() - asked_ns
            columns = self._page.understand(body)
        except NoPage as error:
            took_ns, why = time.monotonic_ns() - asked_ns, str(error)
        self.samples += 1
        self.failed += why is not None
        return sample_of(columns, asked_ns + took_ns // 2, took_ns, why)

    def _take(self, sample: ServerSample) -> None:
        origin_ns = self._origin()
        if origin_ns is None:
            self._before = sample
            return
        for waiting in (self._before, sample):
            if waiting is not None:
                self._sink(waiting.since(origin_ns))
                pause()
        self._before = None


@contextlib.contextmanager
def scraping(client: NetworkClient | None, spec: RunSpec, folder: Path) -> Iterator[None]:
    """Read the metrics page of the server that `client` asks meanwhile, into server.arrows of the run folder.

    Where nothing is asked over a network, nothing is read. Where there is no page, `server_metrics` in run.json says
    why, and the run goes on.
    """
    if client is None:
        yield
        return
    target = client.endpoint().target
    if target.metrics_url == "off":
        update_run(folder, server_metrics={"reason": 'executor.options.metrics_url is "off"'})
        yield
        return
    with open_server(folder) as rows:
        scraper = Scraper(ServerPage(target), rows.add, spec.protocol.telemetry_s, lambda: client.origin_ns)
        reason = scraper.begin()
        if reason is not None:
            update_run(folder, server_metrics=encode(scraper) | {"reason": reason})
            yield
            return
        try:
            with scraper:
                yield
        finally:
            with contextlib.suppress(OSError):  # the disk may be full: the rows say so by themselves
                update_run(folder, server_metrics=encode(scraper))
