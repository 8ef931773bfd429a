"""Detect the end of a chunked answer by its frame alone: cheap enough to do before the next request leaves."""

from __future__ import annotations

import re

END = b"0\r\n\r\n"
"""Of an answer in chunks."""
_HEX = re.compile(rb"[0-9a-fA-F]{1,6}")
_LINE_END = b"\r\n"
_MOST_KNOWN = 4096


class _Sizes(dict[bytes, int]):
    """What the size before a chunk says, 0 where it says none; most sizes come again and again."""

    def __missing__(self, size: bytes) -> int:
        found = int(size, 16) if _HEX.fullmatch(size) else 0
        if len(self) < _MOST_KNOWN:
            self[size] = found
        return found


class _Fronts(dict[int, bytes]):
    """How a piece of each length begins that is one chunk; too long for the piece where no chunk has that length."""

    def __missing__(self, length: int) -> bytes:
        sizes = (length - digits - 2 * len(_LINE_END) for digits in range(1, 7))
        fronts = (b"%x%s" % (size, _LINE_END) for size in sizes if size > 0)
        fit = (front for front in fronts if int(front, 16) + len(front) + len(_LINE_END) == length)
        front = next(fit, b" " * (length + 1))
        if len(self) < _MOST_KNOWN:
            self[length] = front
        return front


_SIZES, _FRONTS = _Sizes(), _Fronts()


def is_one_chunk(piece: bytes) -> bool:
    """Whether this, where a chunk begins, is one chunk; never wrong where it says so."""
    return piece.startswith(_FRONTS[len(piece)]) and piece.endswith(_LINE_END)


def ends_in_chunks(raw: bytes) -> bool:
    """Whether these are whole chunks and the end after them."""
    at, end, find, sizes = 0, len(raw) - len(END), raw.find, _SIZES
    while at < end:
        line = find(_LINE_END, at, at + 8)
        size = sizes[raw[at:line]] if line > at else 0
        at = line + size + 4
        if not size or raw[at - 2 : at] != _LINE_END:
            return False
    return at == end and raw.endswith(END)
