"""The thread that reads what no page has asked for yet, and judges the runs that come without a summary of ours.

It leaves the machine alone while the newest run is being measured, and most of its time to whoever waits for a page.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from twinlens.errors import TwinlensError
from twinlens.reporting.display import clean
from twinlens.web.runs.index import Found, Index
from twinlens.web.runs.row import UNJUDGED, Row, judged

MOST_JUDGED = 200
"""Of the newest runs that are judged unasked; any that a page shows is."""
_REST_S = 0.002
"""After each run: whoever renders a page goes first."""
_PAUSE_S = 2.0
_LOOK_AGAIN_S, _STEP_S = 10.0, 0.2


class Reader:
    """Reads behind an index while it is asked. `wake`: a page was asked for; `want`: a run that it shows."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._wanted: OrderedDict[str, Found] = OrderedDict()
        self._woken, self._ended = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._soon: tuple[Callable[[], object], Future[None]] | None = None

    def wake(self) -> None:
        with self._lock:
            self._woken.set()
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name="twinlens-runs", daemon=True)
                self._thread.start()

    def want(self, found: Found, row: Row) -> None:
        """Judge this one soon, if nobody has."""
        if row.validity == UNJUDGED and len(self._wanted) < MOST_JUDGED:
            self._wanted[found.id] = found

    def soon(self, make: Callable[[], object]) -> Future[None]:
        """Make what a page will ask for again, before anything else; one that waits is enough, so that what another
        waited for is made with the next. Done once it is made."""
        with self._lock:
            done = self._soon[1] if self._soon else Future[None]()
            self._soon = (make, done)
        self.wake()
        return done

    def end(self) -> None:
        self._ended.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(5)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._woken.wait()
            self._woken.clear()
            self._ended.wait(_STEP_S)  # the page that woke it goes first
            self._read_all()
            for _ in range(int(_LOOK_AGAIN_S / _STEP_S)):
                if self._ended.wait(_STEP_S) or self._wanted or self._soon:
                    break

    def _read_all(self) -> None:
        runs = self._index.listing().runs
        for place, found in enumerate(runs):
            if self._ended.is_set():
                return
            self._make()
            if place % 50 == 0:
                self._leave_alone(runs[0])
                self._judge_wanted(1)
            is_new = self._index.kept(found) is None
            self._index.row(found)
            if is_new:
                time.sleep(_REST_S)
        self._make()
        for found in runs[:MOST_JUDGED]:
            self.want(found, self._index.row(found))
        self._judge_wanted(MOST_JUDGED)

    def _make(self) -> None:
        with self._lock:
            asked, self._soon = self._soon, None
        if asked is not None:
            make, done = asked
            try:
                make()
            finally:
                if not done.cancelled():
                    done.set_result(None)

    def _judge_wanted(self, most: int) -> None:
        for _ in range(most):
            if self._ended.is_set():
                return
            try:
                _, found = self._wanted.popitem(last=False)
            except KeyError:  # another thread was first
                return
            row = self._index.row(found)
            if row.validity == UNJUDGED:
                self._index.judge(found, judged_from_rows(found, row))
                time.sleep(_REST_S)

    def _leave_alone(self, newest: Found) -> None:
        while not self._ended.is_set() and self._index.row(newest).validity == "running":
            self._ended.wait(_PAUSE_S)
            return


def judged_from_rows(found: Found, row: Row) -> Row:
    """A row with the verdict on the rows of its run; unreadable with the reason where they cannot be read."""
    from dataclasses import replace

    from twinlens.measurement.summary_file import summary_of
    from twinlens.record.store import read_run
    from twinlens.stats.run_summary import to_json

    try:
        refuse_links(found.path)
        return judged(row, to_json(summary_of(read_run(found.path))))
    except (TwinlensError, OSError, ValueError, KeyError, TypeError, ArithmeticError, MemoryError) as error:
        return replace(row, validity="unreadable", why=f"it cannot be judged: {clean(error, 160)}")


def refuse_links(folder: str) -> None:
    """Raises ValueError where something in a run folder is a link: what it leads to is no part of the run."""
    with os.scandir(folder) as entries:
        for each in entries:
            if each.is_symlink():
                raise ValueError(f"{clean(each.name, 60)} in it is a link, and links are not followed")
