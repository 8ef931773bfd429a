"""Letters for a terminal or a file that has only ASCII: the nearest one, or a question mark, and never a traceback."""

from __future__ import annotations

import codecs

REPLACE = "twinlens-nearest-letter"
"""The name of the error handler, for `stream.reconfigure(errors=REPLACE)`."""
_NEAREST = {
    "–": "-", "—": "-", "−": "-", "·": ".", "…": "...", "×": "x", "±": "+-", "≤": "<=", "≥": ">=", "≈": "~", "→": "->",
    "µ": "u", "✓": "+", "✗": "x", "‘": "'", "’": "'", "“": '"', "”": '"',
    "─": "-", "━": "-", "│": "|", "┃": "|", "╸": "-", "╺": "-",
}  # fmt: skip


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_NEAREST.get(letter, "?") for letter in lost), error.end


codecs.register_error(REPLACE, _nearest)
