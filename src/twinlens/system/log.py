"""The server's log: its last lines, and the one that explains why the server did not start."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

import psutil

from twinlens.system.processes import is_alive

_MOST_BYTES = 2**20
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_PREFIX = re.compile(r"^\(\w+ pid=\d+\)\s*")
_ERROR = re.compile(
    r"^[\w.]*(Error|Exception): |\b(error|fatal|failed|cannot|No module named|not found|in use|Killed|out of memory)\b",
    re.IGNORECASE,
)


def read_log(path: Path) -> str:
    """The last mebibyte, colours and carriage returns removed; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


def telling_line(text: str, most: int = 240) -> str:
    """The line of a log that says what went wrong: the last exception, else the last error, else the last line."""
    lines = [_PREFIX.sub("", line).rstrip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"^[A-Za-z_][\w.]*(Error|Exception|Exit): \S", line)]
    raised = [line for line in raised if "root cause above" not in line] or raised  # of several processes, the first
    wrong = raised or [line.strip() for line in lines if _ERROR.search(line)]
    telling = (wrong or lines or ["it printed nothing"])[-1]
    return telling if len(telling) <= most else telling[: most - 1] + "…"


_OWNER = "owner"


def owned_folder(of: str) -> Path:
    """A new folder of this process, for logs of a "server" or of "ranks"; those whose owners are gone are removed."""
    prefix = f"twinlens-{of}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if _is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    (folder / _OWNER).write_text(f"{os.getpid()} {psutil.Process().create_time()!r}")
    return folder


def _is_abandoned(folder: Path) -> bool:
    """Whether its owner is known and gone; one without an owner may be being made, and stays."""
    with contextlib.suppress(OSError, ValueError):
        pid, born_s = (folder / _OWNER).read_text().split()
        return not is_alive(int(pid), float(born_s))
    return False
