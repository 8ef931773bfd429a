"""Letters for a terminal or a file that has only ASCII: the nearest one, or a question mark, and never a traceback."""

from __future__ import annotations

import codecs
import re

REPLACE = "twinlens-nearest-letter"
"""The name of the error handler, for `stream.reconfigure(errors=REPLACE)`."""
_NEAREST = {
    "–": "-", "—": "-", "−": "-", "·": ".", "…": "...", "×": "x", "±": "+-", "≤": "<=", "≥": ">=", "≈": "~", "→": "->",
    "µ": "u", "✓": "+", "✗": "x", "‘": "'", "’": "'", "“": '"', "”": '"',
    "─": "-", "━": "-", "│": "|", "┃": "|", "╸": "-", "╺": "-",
}  # fmt: skip


def as_text(words: list[str]) -> list[str]:
    """The words of a command. A locale without UTF-8 takes other letters for bytes; the verb and settings, which are no
    paths, are read as UTF-8 again."""
    return [_decoded(word) if place == 0 or "=" in word else word for place, word in enumerate(words)]


def readable(sentence: str) -> str:
    """The sentence with such bytes, in quotes or not, as the letters that they are."""
    return _decoded(_QUOTED.sub(lambda quoted: chr(int(quoted[1], 16)), sentence))


_QUOTED = re.compile(r"\\u(dc[89a-f][0-9a-f])")


def _decoded(word: str) -> str:
    is_bytes = any("\udc80" <= letter <= "\udcff" for letter in word)
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if is_bytes else word


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_NEAREST.get(letter, "?") for letter in lost), error.end


codecs.register_error(REPLACE, _nearest)
