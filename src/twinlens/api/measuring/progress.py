"""Progress of a study while it runs: a bar in a terminal, a line in a notebook, lines of text elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

from rich.console import Console

from twinlens.measurement.event import Event, Watch
from twinlens.measurement.preflight.check import expected_s
from twinlens.spec.study import Study

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


@dataclass(frozen=True, slots=True)
class Progress:
    """Show progress once `after_s` seconds have passed. `lines`: also where there is neither a terminal nor a notebook,
    one line of text for each thing that is begun."""

    after_s: float = 2.0
    lines: bool = False


@contextmanager
def watching(watch: Watch | Progress | None, study: Study, resumed: Path | None) -> Iterator[Watch]:
    """The watch that a study tells its events. `resumed`: the folder of the interrupted study that goes on."""
    if watch is None:
        yield lambda event: None
    elif isinstance(watch, Progress):
        with _shown(watch, study, resumed) as told:
            yield told
    else:
        yield watch


@contextmanager
def _shown(how: Progress, study: Study, resumed: Path | None) -> Iterator[Watch]:
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    pace = _Pace(study, expected_s(study))
    if console.is_jupyter:
        yield _notebook_line(pace, how.after_s)
        return
    if resumed and (how.lines or console.is_terminal):
        console.print(f"resuming {resumed} (--fresh starts over)", soft_wrap=True)
    if console.is_terminal:
        with _bar(console, pace, how.after_s) as told:
            yield told
    else:
        yield _text_lines(console, pace) if how.lines else (lambda event: None)


class _Pace:
    """How much of a study is done, and about how long the rest takes."""

    def __init__(self, study: Study, expected_s: float) -> None:
        self._title, self._expected_s, self._begin_s = study.name, expected_s, time.monotonic()
        kinds = {run.executor.kind for run in study.point_runs()}
        self._names_executor = len(kinds) > 1
        self._first: int | None = None  # the run it began with: those before were measured earlier

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self._begin_s

    def words(self, event: Event) -> str:
        point = event.run.point.label
        if self._names_executor:
            point = f"{event.run.executor.kind} {point}"
        return f"{self._title} {event.number}/{event.total} {point}: {event.phrase}"

    def share(self, event: Event) -> float:
        return (event.number - 1 + event.share) / event.total

    def left(self, event: Event) -> str:
        self._first = self._first or event.number
        here = (event.number - self._first + event.share) / max(1, event.total - self._first + 1)
        left_s = self.spent_s * (1 - here) / here if here > 0.15 else max(0.0, self._expected_s * (1 - here))
        return f"about {left_s:.0f} s left"


@contextmanager
def _bar(console: Console, pace: _Pace, after_s: float) -> Iterator[Watch]:
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[left]}", markup=False),
        TimeElapsedColumn(),
    )
    bar = Bar(*columns, console=console, transient=True)
    task = bar.add_task("starting", total=1.0, left="")
    with _started_after(after_s, bar):
        yield lambda event: bar.update(
            task, completed=pace.share(event), description=pace.words(event), left=pace.left(event)
        )


@contextmanager
def _started_after(after_s: float, bar: Bar) -> Iterator[None]:
    """The bar on screen from then on, also while nothing is told: a server may take long to start."""
    lock, over = Lock(), False

    def start() -> None:
        with lock:
            if not over:
                bar.start()

    timer = Timer(after_s, start)
    timer.daemon = True
    timer.start() if after_s > 0 else start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            over = True
        bar.stop()


def _text_lines(console: Console, pace: _Pace) -> Watch:
    said = ""

    def told(event: Event) -> None:
        nonlocal said
        if (line := pace.words(event)) != said:
            said = line
            console.print(line, soft_wrap=True)

    return told


def _notebook_line(pace: _Pace, after_s: float) -> Watch:
    """One line of HTML that is replaced as it goes: IPython alone can do that, without widgets."""
    from IPython.display import display

    handle: Any = None

    def told(event: Event) -> None:
        nonlocal handle
        if pace.spent_s < after_s:
            return
        share = f'<progress max="1" value="{pace.share(event):.3f}"></progress>'
        line = {"text/html": f"<div>{share} {escape(pace.words(event))}, {pace.left(event)}</div>"}
        if handle is None:
            handle = display(line, raw=True, display_id=True)
        else:
            handle.update(line, raw=True)

    return told
