"""What every verb shares: data on stdout, people's words on stderr, errors as one sentence and an exit code."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from twinlens.errors import TwinlensError
from twinlens.reporting.display import clean
from twinlens.system.interrupts import heard

_OVERHEAD_S = 9.0  # what a run costs beside its rows, until this study's own runs have told


def out(width: int | None = None) -> Console:
    """The console for data. 80 columns where the terminal does not say otherwise."""
    wide = None if sys.stdout.isatty() else (width or int(os.environ.get("COLUMNS", "80")))
    # Names and reasons are shown as they are: square brackets in them are not markup.
    return Console(width=wide, highlight=False, markup=False, emoji=False, soft_wrap=False)


def err() -> Console:
    """The console for progress and warnings."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(data: Any) -> None:
    """Plain JSON on stdout, as it is written on disk."""
    sys.stdout.write(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def sentences() -> Iterator[None]:
    """Turn errors into one sentence on stderr and the exit code of their kind; no traceback for bad input."""
    try:
        with heard():
            yield
    except TwinlensError as error:
        _complain(str(error), f"twinlens explain {error.code}")
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        _complain("interrupted; nothing was lost: run it again to go on", "twinlens explain TL130")
        raise SystemExit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader has gone (`| head`): say nothing more
        raise SystemExit(0) from None
    except OSError as error:
        _complain(_of_a_file(error), "twinlens explain TL301")
        raise SystemExit(3) from None


def _of_a_file(error: OSError) -> str:
    """A sentence for what the system refused, with the path where it is known."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    what = error.strerror or str(error)
    more = "free some space" if error.errno == errno.ENOSPC else "choose another folder (--out), or its permissions"
    return f"{where}{what}; what was written before is kept: {more}, and run it again"


def _complain(sentence: str, more: str = "") -> None:
    words = Text.assemble(("twinlens:", "bold red"), " ", clean(sentence, 2000), (f" ({more})" if more else "", "dim"))
    err().print(words, soft_wrap=True)


class StudyProgress:
    """One bar over the runs of a study, with what the current one does and the time that is left."""

    def __init__(self, title: str, total_s: float, quiet: bool) -> None:
        self._begin_s, self._planned_s = time.monotonic(), total_s
        self._first: int | None = None
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[left]}", markup=False),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=err(), transient=True, disable=quiet)
        self._task = self._bar.add_task(title, total=1.0, left="")
        self._title = title
        self._said = ""
        self._quiet = quiet

    def __enter__(self) -> StudyProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: Any) -> None:
        """Take an Event of a study."""
        self._first = self._first or event.number
        done = (event.number - 1 + event.share) / event.total
        here = (event.number - self._first + event.share) / max(1, event.total - self._first + 1)
        spent_s = time.monotonic() - self._begin_s
        left_s = spent_s * (1 - here) / here if here > 0.15 else max(0.0, self._planned_s * (1 - here))
        what = f"{self._title} {event.number}/{event.total} {event.run.point.precision}: {event.phrase}"
        self._bar.update(self._task, completed=done, description=what, left=f"about {left_s:.0f} s left")
        if not self._quiet and not self._bar.console.is_terminal and (line := what) != self._said:
            self._said = line
            self._bar.console.print(line, soft_wrap=True)


def planned_s(study: Any) -> float:
    """Seconds a study is expected to take: its durations and what each run costs beside them; the most of a search."""
    each_s = study.protocol.duration_s + _OVERHEAD_S
    if study.search is None:
        return float(len(study.runs()) * each_s)
    most_s = study.search.most_points * each_s
    return float(len(study.points()) * min(most_s, study.search.budget_s or most_s))
