"""The console for data on stdout. Loaded where something is printed: rich takes its time."""

from __future__ import annotations

import os
import re
import sys
from typing import IO, Any, TextIO, cast

from rich.console import Console

from twinlens.cli.screen import discard_stdout


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
        discard_stdout()


class _WithoutTrailing:
    """A stream of text whose lines do not end in spaces, with which rich fills tables."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(_TRAILING.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_TRAILING = re.compile(r" +$", re.MULTILINE)


_NARROWEST = 20
_NEAREST_IS_LONGER = 8  # "±" becomes "+-", once in each column of a table


def _columns() -> int:
    """The width in COLUMNS, where it is one; else 80."""
    width = os.environ.get("COLUMNS", "")
    return max(_NARROWEST, int(width)) if width.isdecimal() and int(width) else 80
