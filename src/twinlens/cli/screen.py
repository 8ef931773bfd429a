"""Output shared by all verbs: data on stdout, messages on stderr, an error as one sentence and an exit code."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twinlens.cli.plain_letters import readable
from twinlens.errors import TwinlensError
from twinlens.reporting.display import clean
from twinlens.system.interrupts import raising_interrupts

if TYPE_CHECKING:  # it takes its time
    from rich.console import Console


def err() -> Console:
    """The console for progress and warnings."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def discard_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


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
        discard_stdout()


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
        discard_stdout()  # the reader has gone (`| head`): say nothing more
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
    from rich.text import Text

    words = Text.assemble(
        ("twinlens:", "bold red"), " ", clean(readable(sentence), 2000), (f" ({more})" if more else "", "dim")
    )
    err().print(words, soft_wrap=True)
