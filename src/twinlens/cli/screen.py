"""Output shared by all verbs: data on stdout, messages on stderr, an error as one sentence and an exit code."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO, cast

from rich.console import Console
from rich.text import Text

from twinlens.cli.plain_letters import readable
from twinlens.errors import TwinlensError
from twinlens.reporting.display import clean
from twinlens.system.interrupts import raising_interrupts


def out(width: int | None = None) -> Console:
    """The console for data. 80 columns where the terminal does not say otherwise."""
    wide = None if sys.stdout.isatty() else (width or _columns())
    # Names and reasons are shown as they are: square brackets in them are not markup.
    file = None if sys.stdout.isatty() else cast(IO[str], _WithoutTrailing(sys.stdout))
    console = _Piped(width=wide, file=file, highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not console.encoding.lower().startswith("utf"):
        console.width = max(_NARROWEST, console.width - _NEAREST_IS_LONGER)
    return console


class _Piped(Console):
    """A console whose reader may go (`| head`): the verb goes on to its own exit code (rich: 1)."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _discard_stdout()


class _WithoutTrailing:
    """A stream of text whose lines do not end in spaces, with which rich fills tables."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(_TRAILING.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_TRAILING = re.compile(r" +$", re.MULTILINE)


def _discard_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


_NARROWEST = 20
_NEAREST_IS_LONGER = 8  # "±" becomes "+-", once in each column of a table


def _columns() -> int:
    """The width in COLUMNS, where it is one; else 80."""
    width = os.environ.get("COLUMNS", "")
    return max(_NARROWEST, int(width)) if width.isdecimal() and int(width) else 80


def err() -> Console:
    """The console for progress and warnings."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


_UNSEEN = re.compile("[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Controls, marks of direction and letters without width; JSON escapes those below a blank by itself."""


def print_json(data: Any) -> None:
    """Plain JSON on stdout, as it is written on disk; in escapes what a terminal does not show, or stdout has not."""
    is_utf = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(data, indent=1, ensure_ascii=not is_utf, allow_nan=False)
    try:
        sys.stdout.write(_UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()


@contextmanager
def sentences() -> Iterator[None]:
    """Turn errors into one sentence on stderr and the exit code of their kind; no traceback for bad input."""
    try:
        with raising_interrupts():
            yield
    except TwinlensError as error:
        _complain(str(error), f"twinlens explain {error.code}")
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        _complain("interrupted; nothing was lost: run it again to go on", "twinlens explain TL130")
        raise SystemExit(130) from None
    except MemoryError:
        _complain("this takes more memory than there is; what was written before is kept", "twinlens explain TL309")
        raise SystemExit(3) from None
    except BrokenPipeError:
        _discard_stdout()  # the reader has gone (`| head`): say nothing more
        raise SystemExit(0) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            _complain(f"{str(error.filename)[:60]!r}… is longer than a path can be", "twinlens explain TL205")
            raise SystemExit(2) from None
        _complain(_of_a_file(error), "twinlens explain TL301")
        raise SystemExit(3) from None


def _of_a_file(error: OSError) -> str:
    """A sentence for what the system refused, with the path where it is known."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    refused = error.strerror or str(error)
    advice = (
        "free some space"
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "choose another folder (--out), or its permissions"
    )
    return f"{where}{refused}; what was written before is kept: {advice}, and run it again"


def _complain(sentence: str, more: str = "") -> None:
    words = Text.assemble(
        ("twinlens:", "bold red"), " ", clean(readable(sentence), 2000), (f" ({more})" if more else "", "dim")
    )
    err().print(words, soft_wrap=True)
