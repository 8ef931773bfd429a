"""Text that somebody else wrote: made fit to be kept, and fit to be shown. Nothing here is left out silently."""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePosixPath
from typing import Any

_UNKNOWN = "\ufffd"


def whole(text: str) -> str:
    """The text as UTF-8 can hold it: halves of a pair that came apart joined again, and a lone one U+FFFD.

    JSON may say `"\\ud800"`, which is no character; what cannot be written must not end a run.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def all_whole(value: Any) -> Any:
    """The same of every string in a value that JSON holds."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole(str(key)): all_whole(item) for key, item in value.items()}
    return [all_whole(item) for item in value] if isinstance(value, list) else value


def in_one_line(text: str, most: int = 400) -> str:
    """Words for a row or a sentence: one line, and every control character (of terminals, of text direction) U+FFFD."""
    line = " ".join(whole(text[: 4 * most]).split())
    if not line.isprintable():
        line = "".join(char if char == " " or unicodedata.category(char)[0] != "C" else _UNKNOWN for char in line)
    return line if len(line) <= most else line[: most - 1] + "…"


_BETWEEN_PATHS = re.compile(r"([\s:;,=]+)")


def without_paths(value: str) -> str:
    """The value of a variable without where things lie, which names users and is no part of how fast it runs.

    A library keeps its file name ("…/libjemalloc.so.2"), which does; any other path is "a path". URLs stay.
    """
    if "://" in value:
        return value
    return "".join(_masked(part) for part in _BETWEEN_PATHS.split(value))


def _masked(part: str) -> str:
    if not part.startswith(("/", "~/")):
        return part
    name = PurePosixPath(part).name
    return f"…/{name}" if ".so" in name or name.endswith(".dylib") else "a path"
