"""The server's log: its last lines, and the one that explains why the server did not start."""

from __future__ import annotations

import re
from pathlib import Path

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
    wrong = raised or [line.strip() for line in lines if _ERROR.search(line)]
    telling = (wrong or lines or ["it printed nothing"])[-1]
    return telling if len(telling) <= most else telling[: most - 1] + "…"
