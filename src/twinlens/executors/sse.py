"""Server-sent events out of bytes cut anywhere (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")


class Events:
    """Cuts a stream into the data of its events. Comments and other fields than data are left out.

    Bytes are joined before anything is decoded, so a cut may fall inside `data:` or a UTF-8 character. An event is
    there when the empty line after it is.
    """

    def __init__(self) -> None:
        self._pending = b""
        self._unended: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The data of each event that `data` completes."""
        if b"\n" not in data and b"\r" not in data and self._pending[-1:] != b"\r":
            if data:  # a line that does not end is put aside unread: reading it again and again would be quadratic
                self._unended.append(data)
            return []
        data = b"".join([self._pending, *self._unended, data])
        self._unended = []
        # A carriage return at the very end may be the first half of a line end; it waits for the second.
        found, at = [], 0
        for end in _LINE_END.finditer(data):
            if end.end() == len(data) and end.group() == b"\r":
                break
            line, at = data[at : end.start()], end.end()
            if line:
                self._line(line)
            elif self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        self._pending = data[at:]
        return found

    def end(self) -> list[bytes]:
        """The stream is over: an event that lacks its last empty line still counts, as real servers forget it."""
        if left := b"".join([self._pending, *self._unended]):
            self._line(left.rstrip(b"\r\n"))
            self._pending, self._unended = b"", []
        rest, self._data = self._data, []
        return [b"\n".join(rest)] if rest else []

    @property
    def between_events(self) -> bool:
        """Nothing is pending."""
        return not self._pending and not self._unended and not self._data

    def _line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value[1:] if value[:1] == b" " else value)
