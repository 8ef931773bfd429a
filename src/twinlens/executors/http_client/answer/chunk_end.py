"""Detect the end of a chunked answer by its frame alone: cheap enough to do before the next request leaves."""

from __future__ import annotations

import re

END = b"0\r\n\r\n"
"""Of an answer in chunks."""
_HEX = re.compile(rb"[0-9a-fA-F]{1,6}")
_END_PARTS = END.split(b"\r\n")
_MOST_SIZES = 4096


class _Sizes(dict[bytes, int]):
    """What the size before a chunk says, 0 where it says none; most sizes come again and again."""

    def __missing__(self, size: bytes) -> int:
        found = int(size, 16) if _HEX.fullmatch(size) else 0
        if len(self) < _MOST_SIZES:
            self[size] = found
        return found


_SIZES = _Sizes()


def ends_in_chunks(raw: bytes) -> bool:
    """Whether these are whole chunks and the end after them."""
    parts = raw.split(b"\r\n")
    if parts[-3:] != _END_PARTS:
        return False
    sizes = [_SIZES[size] for size in parts[:-3:2]]
    if 0 not in sizes and sizes == [len(part) for part in parts[1:-3:2]]:
        return True
    at, end = 0, len(raw) - len(END)
    while at < end:  # what separates chunks stands in one, maybe
        line = raw.find(b"\r\n", at, at + 8)
        size = _SIZES[raw[at:line]] if line > at else 0
        at = line + size + 4
        if not size or not raw.startswith(b"\r\n", at - 2):
            return False
    return at == end
