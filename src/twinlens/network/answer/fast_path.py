"""Many like events at once: the hot path of reading a stream whose events differ only in their text.

Nearly all events of an answer are the same bytes around another piece of text. Once one has been read and understood,
the bytes before and after its text are a template; whatever fits it needs no JSON parser, only a split, a comparison of
the front and a look for characters that a JSON string may not hold. Everything else goes the general way (sse.py), and
the outcome is the same.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from itertools import accumulate
from time import monotonic_ns

from twinlens.network.answer.events import MOST_CHUNKS, Answer

_CHUNKED = re.compile(rb"([0-9a-fA-F]{1,6})\r\n(data: (\{[^\r\n]*\}|\[DONE\])(\r?\n\r?\n))\r\n")
_PLAIN = re.compile(rb"()(data: (\{[^\r\n]*\}|\[DONE\])(\r?\n\r?\n))")
_TEXT = re.compile(rb'"(?:content|text)"\s*:\s*"')
_UNFIT = re.compile(rb'[\x00-\x1f"]')
SIMPLE = re.compile(rb'[^"\\\x00-\x1f]*')
_OTHER_TEXT = b"~"
_MOST_ATTEMPTS = 6
_WORTH = 4


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


class FastPath:
    """Reads runs of events into an answer; `chunked`: each event is one HTTP chunk."""

    def __init__(self, *, chunked: bool) -> None:
        self._chunked = chunked
        self._one = _CHUNKED if chunked else _PLAIN
        self._attempts = 0
        self._fronts: dict[int, bytes] | None = None
        self._front = self._after = b""

    def read(self, wire: bytes, at: int, ends: list[int], first: int, answer: Answer, until_ns: int) -> int:
        """Take whole events of `wire` from `at`, a boundary of events; returns where it stopped, maybe as it was late.

        `ends`: where each read ended in the wire, the first of which is read number `first`. Raises Malformed.
        """
        spoke = not answer.is_done
        while True:
            if self._after and spoke:  # after an event without text, the next is another kind too
                at = self._many(wire, at, ends, first, answer)
            event = self._one.match(wire, at)
            if event is None or (self._chunked and int(event[1], 16) != len(event[2])):
                return at
            spoke = answer.take(event[3], bisect_left(ends, event.end(2)) + first)
            if spoke:
                self._learn(event, answer)
            at = event.end()
            if monotonic_ns() > until_ns:
                return at

    def _learn(self, event: re.Match[bytes], answer: Answer) -> None:
        """Take this event, which `answer` has just taken, as the template, if its text can be told from the rest."""
        if self._attempts >= _MOST_ATTEMPTS:
            self._after = b""  # no two events are alike here
            return
        self._attempts += 1
        head, tail = template_of(event[2], event[3], answer)
        if not head:
            return
        self._front, self._fronts = head, None
        if self._chunked:
            size = event[1].decode()
            case = next((case for case in ("x", "X") if format(int(size, 16), case) == size), None)
            if case is None:  # zeros in front, maybe: not worth a second way
                return
            self._fronts = _Fronts(head, len(tail) + len(event[4]), case)
        self._after = tail + event[4] + (b"\r\n" if self._chunked else b"")

    def _many(self, wire: bytes, at: int, ends: list[int], first: int, answer: Answer) -> int:
        pieces = wire[at:].split(self._after)
        del pieces[min(len(pieces) - 1, MOST_CHUNKS + 1 - len(answer.reads)) :]
        texts = self._texts(pieces)
        if b"" in texts:  # it says something else then, maybe, or nothing
            texts = texts[: texts.index(b"")]
        texts, text = _said(texts)
        if not texts:
            return at
        if len(texts) >= _WORTH:
            self._attempts = 0
        after = len(self._after)
        stops = list(accumulate([len(piece) + after for piece in pieces[: len(texts)]], initial=at))[1:]
        answer.parts.append(text)
        answer.reads.extend(self._reads(stops, ends, first))
        answer.bound()
        return stops[-1]

    def _reads(self, stops: list[int], ends: list[int], first: int) -> list[int] | range:
        """The read with which each event was complete."""
        begin = bisect_left(ends, stops[0])
        if ends[begin : begin + len(stops)] == stops:  # each in a read of its own: so it is nearly always
            return range(first + begin, first + begin + len(stops))
        cut = 2 if self._chunked else 0  # the line end after a chunk is not part of the event
        return [bisect_left(ends, stop - cut) + first for stop in stops]

    def _texts(self, pieces: list[bytes]) -> list[bytes]:
        """The text in each piece, as far as they fit the template."""
        fronts, front = self._fronts, self._front
        if fronts is None:
            texts = [piece[len(front) :] for piece in pieces if piece.startswith(front)]
        else:
            texts = [piece[len(f) :] for piece in pieces if piece.startswith(f := fronts[len(piece)])]
        if len(texts) == len(pieces):
            return texts
        fit = next(i for i, piece in enumerate(pieces) if not piece.startswith(fronts[len(piece)] if fronts else front))
        return texts[:fit]


def template_of(event: bytes, data: bytes, answer: Answer) -> tuple[bytes, bytes]:
    """The bytes before and after the text of an event with this data, where the text can be told from the rest; two
    empty ones where it cannot.

    One place looks as if it held the text. It is tried: if with other bytes there the event says just these and
    nothing else, then whatever JSON string stands there is what is said. `answer` has just taken the event.
    """
    places = list(_TEXT.finditer(data))
    if len(places) != 1 or (answer.finish, answer.usage, answer.error) != (None, None, None):
        return b"", b""
    if not event.startswith(b"data: " + data):
        return b"", b""
    begin = places[0].end()
    text = SIMPLE.match(data, begin)
    assert text is not None
    tail = data[text.end() :]
    if tail[:1] != b'"' or not _says(data[:begin], text[0] + _OTHER_TEXT, tail):
        return b"", b""
    return b"data: " + data[:begin], tail


def _says(head: bytes, text: bytes, tail: bytes) -> bool:
    """Whether an event with this text says it, and nothing else."""
    other = Answer()
    other.take(head + text + tail, 0)
    return other.text == text.decode() and (other.finish, other.usage, other.error) == (None, None, None)


def _said(texts: list[bytes]) -> tuple[list[bytes], str]:
    """As many of the texts as are whole JSON strings, and what they say."""
    joined = b"".join(texts)
    if b"\\" not in joined and not _UNFIT.search(joined):
        try:  # characters that two events share are none in either
            return texts, joined.decode() if joined.isascii() else "".join([text.decode() for text in texts])
        except UnicodeDecodeError:
            pass
    said = _fitting(texts)
    return texts[: len(said)], "".join(said)


def _fitting(texts: list[bytes]) -> list[str]:
    """What is said by the first of the texts that are whole JSON strings."""
    said: list[str] = []
    for text in texts:
        try:
            word = json.loads(f'"{text.decode()}"')
        except ValueError:
            break
        said.append(word)
    return said


# Detect the end of a chunked answer by its frame alone: cheap enough to do before the next request leaves.

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


class _ChunkFronts(dict[int, bytes]):
    """How a piece of each length begins that is one chunk; too long for the piece where no chunk has that length."""

    def __missing__(self, length: int) -> bytes:
        sizes = (length - digits - 2 * len(_LINE_END) for digits in range(1, 7))
        fronts = (b"%x%s" % (size, _LINE_END) for size in sizes if size > 0)
        fit = (front for front in fronts if int(front, 16) + len(front) + len(_LINE_END) == length)
        front = next(fit, b" " * (length + 1))
        if len(self) < _MOST_KNOWN:
            self[length] = front
        return front


_SIZES, _CHUNK_FRONTS = _Sizes(), _ChunkFronts()


def is_one_chunk(piece: bytes) -> bool:
    """Whether this, where a chunk begins, is one chunk; never wrong where it says so."""
    return piece.startswith(_CHUNK_FRONTS[len(piece)]) and piece.endswith(_LINE_END)


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
