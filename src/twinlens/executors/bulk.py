"""Many like events at once: the hot path of reading a stream whose events differ only in their text.

Nearly all events of an answer are the same bytes around another piece of text. Once one has been read and understood,
the bytes before and after its text are a template; whatever fits it needs no JSON parser, only a split, a comparison of
the front and a look for characters that a JSON string may not hold. Everything else goes the general way (sse.py), and
the outcome is the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

from twinlens.executors.answer import Answer
from twinlens.executors.http_reply import Malformed

_CHUNKED = re.compile(rb"([0-9a-fA-F]{1,6})\r\n(data: (\{[^\r\n]*\})(\r?\n\r?\n))\r\n")
_PLAIN = re.compile(rb"()(data: (\{[^\r\n]*\})(\r?\n\r?\n))")
_TEXT = re.compile(rb'"(?:content|text)"\s*:\s*"')
_UNFIT = re.compile(rb'[\x00-\x1f"]')
_SIMPLE = re.compile(rb'[^"\\\x00-\x1f]*')
_PROBE = "twinlens"
_MOST_ATTEMPTS = 6
_WORTH = 4


@dataclass(frozen=True, slots=True)
class Found:
    """Events found in a row: where each ends in the wire bytes, of those that hold text; and that text."""

    ends: np.ndarray
    text: str


class _Fronts(dict[int, bytes]):
    """What stands before the text in a piece of each length: the chunk's size is part of it."""

    def __init__(self, head: bytes, around: int, case: str) -> None:
        self._head, self._around, self._case = head, around, case

    def __missing__(self, length: int) -> bytes:
        front = self[length] = self._front(length)
        return front

    def _front(self, length: int) -> bytes:
        for digits in range(1, 7):
            size = length - digits - 2 + self._around
            shown = format(max(size, 0), self._case).encode()
            if len(shown) == digits:
                return shown + b"\r\n" + self._head
        return b"\x00"


class Bulk:
    """Reads runs of events into an answer; `chunked`: each event is one HTTP chunk."""

    def __init__(self, *, chunked: bool) -> None:
        self._chunked = chunked
        self._one = _CHUNKED if chunked else _PLAIN
        self._attempts = 0
        self._fronts: dict[int, bytes] | None = None
        self._front = self._after = b""

    def read(self, wire: bytes, at: int, ends: np.ndarray, first: int, answer: Answer) -> int:
        """Take whole events of `wire` from `at`, a boundary of events; returns where it stopped.

        `ends`: where each read ended in the wire, the first of which is read number `first`. Raises Malformed.
        """
        while True:
            if self._after and (found := self._many(wire, at)):
                end, run = found
                if len(run.ends):
                    answer.reads.extend((np.searchsorted(ends, run.ends, "left") + first).tolist())
                    answer.parts.append(run.text)
                at = end
            event = self._one.match(wire, at)
            if event is None or (self._chunked and int(event[1], 16) != len(event[2])):
                return at
            read = int(np.searchsorted(ends, event.end(2), "left")) + first
            if answer.take(event[3], read):
                self._learn(event)
            at = event.end()

    def _learn(self, event: re.Match[bytes]) -> None:
        """Take this event as the template, if its text can be told from the rest."""
        if self._attempts >= _MOST_ATTEMPTS:
            self._after = b""  # no two events are alike here
            return
        data = event[3]
        places = list(_TEXT.finditer(data))
        if len(places) != 1:
            return
        self._attempts += 1
        begin = places[0].end()
        text = _SIMPLE.match(data, begin)
        assert text is not None
        head, tail = data[:begin], data[text.end() :]
        if not tail.startswith(b'"') or not _is_template(head, tail):
            return
        head = b"data: " + head
        self._after = tail + event[4] + (b"\r\n" if self._chunked else b"")
        self._front, self._fronts = head, None
        if self._chunked:
            size = event[1].decode()
            case = next((case for case in ("x", "X") if format(int(size, 16), case) == size), None)
            if case is None:  # zeros in front, maybe: not worth a second way
                self._after = b""
                return
            self._fronts = _Fronts(head, len(tail) + len(event[4]), case)

    def _many(self, wire: bytes, at: int) -> tuple[int, Found] | None:
        pieces = wire[at:].split(self._after)
        pieces.pop()
        texts = self._texts(pieces)
        joined = b"".join(texts)
        if _UNFIT.search(joined) or b"\\" in joined:
            texts = _fitting(texts)
            text = "".join(json.loads(b'"%b"' % piece) for piece in texts)
        else:
            try:
                text = joined.decode()
            except UnicodeDecodeError:
                return None
        if not texts:
            return None
        if len(texts) >= _WORTH:
            self._attempts = 0
        lengths = np.fromiter(map(len, pieces[: len(texts)]), np.int64, len(texts)) + len(self._after)
        ends = at + np.cumsum(lengths)
        end = int(ends[-1])
        if b"" in texts:
            ends = ends[np.fromiter(map(bool, texts), bool, len(texts))]
        return end, Found(ends - (2 if self._chunked else 0), text)

    def _texts(self, pieces: list[bytes]) -> list[bytes]:
        """The text in each piece, as far as they fit the template."""
        texts: list[bytes] = []
        fronts, front = self._fronts, self._front
        for piece in pieces:
            if fronts is not None:
                front = fronts[len(piece)]
            if not piece.startswith(front):
                break
            texts.append(piece[len(front) :])
        return texts


def _fitting(texts: list[bytes]) -> list[bytes]:
    """The first of the texts that are whole JSON strings."""
    for index, text in enumerate(texts):
        if b"\\" in text or _UNFIT.search(text):
            try:
                if not isinstance(json.loads(b'"%b"' % text), str):
                    return texts[:index]
            except ValueError:
                return texts[:index]
    return texts


def _is_template(head: bytes, tail: bytes) -> bool:
    """Whether a text between these bytes is the answer's text and nothing else happens in such an event."""
    trial = Answer()
    try:
        return (
            trial.take(head + _PROBE.encode() + tail, 0)
            and trial.text == _PROBE
            and not trial.reasoning
            and (trial.finish, trial.usage, trial.error) == (None, None, None)
        )
    except Malformed:
        return False
