"""A compressed body, unpacked a little at a time: what it becomes is bounded, and so is what one call costs."""

from __future__ import annotations

import zlib

_MOST_BYTES = 16 * 2**20
_AT_ONCE = 16 * 1024


class Unzip:
    """`add` what came, `take` what it becomes until nothing `is_waiting`.

    `fault`: why nothing more can be taken. Several parts, one after another, are one body (RFC 1952, 2.2). What comes
    out does not depend on how the bytes were cut.
    """

    def __init__(self) -> None:
        self.fault: str | None = None
        self._packed = b""
        self._is_full = False  # the last call gave as much as it may: there may be more without another byte
        self._left = _MOST_BYTES
        self._part = _part()

    def add(self, packed: bytes) -> None:
        self._packed += packed

    @property
    def is_waiting(self) -> bool:
        """Whether `take` may have more to give."""
        return (self._is_full or bool(self._packed)) and self.fault is None

    def take(self) -> bytes:
        """The next bytes, 16 KiB at most."""
        if not self.is_waiting:
            return b""
        if self._part.eof:
            self._part = _part()
        before = self._part.copy()
        most = min(_AT_ONCE, self._left + 1)
        try:
            plain = self._part.decompress(self._packed, most)
        except zlib.error:
            return self._last(before)
        self._packed = self._part.unused_data if self._part.eof else self._part.unconsumed_tail
        self._is_full = len(plain) == most and not self._part.eof
        return self._counted(plain)

    def _last(self, part: zlib._Decompress) -> bytes:
        """What comes before the byte that is wrong."""
        plain: list[bytes] = []
        for at in range(len(self._packed)):
            try:
                plain.append(part.decompress(self._packed[at : at + 1]))
            except zlib.error as wrong:
                self.fault = f"the compressed body is broken ({wrong})"
                break
        return self._counted(b"".join(plain))

    def _counted(self, plain: bytes) -> bytes:
        if len(plain) > self._left:
            plain, self.fault = plain[: self._left], f"the compressed body holds over {_MOST_BYTES} bytes"
        self._left -= len(plain)
        return plain


def _part() -> zlib._Decompress:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
