"""The events of one answer, interpreted: chunks that hold tokens, the server's counts, the reason to end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from twinlens.network.answer.frame import Malformed
from twinlens.record.foreign_text import in_one_line, whole

MOST_CHUNKS = 2**18
"""Of one answer: twice the longest that a model writes today, one token a chunk."""

REASONING = ("reasoning_content", "reasoning")
_DECODE = json.JSONDecoder().decode


class Answer:
    """Takes the data of events in order. `reads[i]`: the read with which chunk i was complete.

    `reasoning`: how many chunks before the first of content hold reasoning, `thought_bytes`: its text.
    `usage`, `finish`, `model`: as the server said.
    `chunks_at_finish`: how many chunks there were when it gave its reason to end. `said`: an answer that was not
    streamed.
    """

    def __init__(self) -> None:
        self.reads: list[int] = []
        self.parts: list[str] = []
        self.reasoning = self.thought_bytes = 0
        self.usage: dict[str, Any] | None = None
        self.finish: str | None = None
        self.model = ""
        self.chunks_at_finish: int | None = None
        self.is_done = False
        self.error: str | None = None
        self.said: dict[str, Any] | None = None

    def take(self, data: bytes, read: int) -> bool:
        """One event's data; whether it was a chunk of content. What follows `[DONE]` is no answer. Raises Malformed."""
        if self.is_done:
            return False
        if data[:1] == b"{":
            return self._chunk(_parsed(data), read)
        if data.strip() == b"[DONE]":
            self.is_done = True
        elif data.strip():
            return self._chunk(_parsed(data), read)
        return False

    def take_whole(self, body: bytes, read: int) -> None:
        """An answer that was not streamed: everything comes with one read. Raises Malformed."""
        self.said = said = _parsed(body)
        for choice in _choices(said):
            if isinstance(message := choice.get("message"), dict):
                choice["delta"] = message
        self._chunk(said, read)

    @property
    def text(self) -> str:
        """The content, without reasoning."""
        return whole("".join(self.parts))

    def bound(self) -> None:
        """Raises Malformed for an answer of more chunks than one has."""
        if len(self.reads) > MOST_CHUNKS:
            raise Malformed(f"the answer does not end: over {MOST_CHUNKS} chunks")

    def _chunk(self, said: dict[str, Any], read: int) -> bool:
        if isinstance(said.get("usage"), dict):
            self.usage = said["usage"]
        if not self.model:
            self.model = _word(said.get("model"))
        if said.get("error"):
            self.error = f"the server says: {_sentence(said['error'])}"
        spoken, thought, had_finished = "", "", self.finish is not None
        for choice in _choices(said):
            delta = choice.get("delta")
            if not isinstance(delta, dict):
                delta = choice
            text = delta.get("content")
            if text and isinstance(text, str):
                spoken += text
            else:
                spoken += _rarely_spoken(delta)
                thought += "".join([_word(delta.get(key)) for key in REASONING])
            if isinstance(choice.get("finish_reason"), str):
                self.finish = in_one_line(choice["finish_reason"], 100)
        if thought:
            self.thought_bytes += len(thought.encode("utf-8", "replace"))
        if spoken:
            self.parts.append(spoken)
        elif thought and self.reasoning == len(self.reads):
            self.reasoning += 1
        if spoken or thought:
            self.reads.append(read)
            self.bound()
        if self.finish is not None and not had_finished:
            self.chunks_at_finish = len(self.reads)
        return bool(spoken)


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        said = _DECODE(data.decode())
    except (ValueError, RecursionError) as wrong:
        raise Malformed(f"an event is not JSON ({str(wrong)[:80]})") from None
    if not isinstance(said, dict):
        raise Malformed(f"an event is JSON but no object: {data[:40]!r}")
    return said


def _choices(said: dict[str, Any]) -> list[dict[str, Any]]:
    choices = said.get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _rarely_spoken(delta: dict[str, Any]) -> str:
    text = _word(delta.get("text")) or _word(delta.get("refusal"))
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        functions = [call.get("function") for call in calls if isinstance(call, dict)]
        text += "".join(_word(f.get("name")) + _word(f.get("arguments")) for f in functions if isinstance(f, dict))
    return text


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _sentence(error: Any) -> str:
    said = error.get("message", error) if isinstance(error, dict) else error
    return in_one_line(str(said), 200)


# Server-sent events out of bytes cut anywhere (https://html.spec.whatwg.org/multipage/server-sent-events.html).

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
