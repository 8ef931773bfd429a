"""Server-sent events out of bytes cut anywhere (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from twinlens.executors.http_client.answer.head import Malformed

MOST_EVENT_BYTES = 2**20
"""Of one event: what is longer is no token, and would be understood in one piece while all others wait."""
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Events:
    """Cuts a stream into the data of its events. Comments and other fields than data are left out.

    Bytes are joined before anything is decoded, so a cut may fall inside `data:` or a UTF-8 character. An event is
    there when the empty line after it is.
    """

    def __init__(self) -> None:
        self._pending = b""
        self._unended: list[bytes] = []
        self._unended_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The data of each event that `data` completes, one by one. Raises Malformed after the last before a fault."""
        if b"\n" not in data and b"\r" not in data and self._pending[-1:] != b"\r":
            if data:  # a line that does not end is put aside unread: reading it again and again would be quadratic
                self._unended.append(data)
                self._unended_bytes += len(data)
                _bound(len(self._pending) + self._unended_bytes)
            return
        data = b"".join([self._pending, *self._unended, data])
        self._unended, self._unended_bytes = [], 0
        # A carriage return at the very end may be the first half of a line end; it waits for the second.
        at = 0
        for end in _LINE_END.finditer(data):
            if end.end() == len(data) and end.group() == b"\r":
                break
            line, at = data[at : end.start()], end.end()
            if line:
                self._line(line)
            elif self._data:
                yield self._event()
        self._pending = data[at:]
        _bound(len(self._pending) - self._pending.endswith(b"\r"))

    def end(self) -> Iterator[bytes]:
        """The stream is over: an event that lacks its last empty line still counts, as real servers forget it."""
        if left := b"".join([self._pending, *self._unended]):
            self._line(left.rstrip(b"\r"))
        if self._data:
            yield self._event()

    @property
    def between_events(self) -> bool:
        """Nothing is pending."""
        return not self._pending and not self._unended and not self._data

    def _line(self, line: bytes) -> None:
        _bound(len(line))
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value[1:] if value[:1] == b" " else value
            self._data.append(value)
            self._data_bytes += len(value) + 1
            _bound(self._data_bytes - 1)

    def _event(self) -> bytes:
        lines, self._data, self._data_bytes = self._data, [], 0
        return b"\n".join(lines)


def _bound(size: int) -> None:
    if size > MOST_EVENT_BYTES:
        raise Malformed(f"an event of over {MOST_EVENT_BYTES} bytes")
