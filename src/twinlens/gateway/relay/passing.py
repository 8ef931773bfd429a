"""One streamed answer on its way: whole events go on as they came, each understood once as it passes."""

from __future__ import annotations

import json
from typing import Any

from twinlens.network.answer.events import MOST_CHUNKS, MOST_EVENT_BYTES, Answer
from twinlens.network.answer.fast_path import SIMPLE, template_of
from twinlens.network.answer.frame import Malformed
from twinlens.system.document import json_of

DONE = b"data: [DONE]\n\n"
_END = b"\n\n"
_MOST_BYTES = 2**28
_MOST_TRIES = 6
"""Where no two events are alike, no template is looked for any more."""


class Passing:
    """Takes reads cut anywhere and gives back whole events. `answer`: what they said. `wrong`: why nothing more is
    believed; what came before it was given back.

    `hides_usage`: the event with the counts stays here, since the client did not ask for it. `[DONE]` always does: who
    sends the answer on says when it is over. `ids`: where numbers of tokens were asked for so that another backend can
    go on, those up to the last event with content, `prompt_ids` before them; they stay here too.
    """

    def __init__(self, *, hides_usage: bool, takes_ids: bool = False) -> None:
        self.answer = Answer()
        self.wrong = ""
        self.prompt_ids: list[int] = []
        self.ids: list[int] = []
        self.first: dict[str, Any] | None = None
        self._takes_ids, self._later_ids = takes_ids, list[int]()
        self._hides_usage = hides_usage
        self._held = b""
        self._bytes = 0
        self._head = self._tail = self._end = b""
        self._tries = 0

    def feed(self, data: bytes) -> tuple[bytes, int]:
        """What goes on now, and how many events with content that is."""
        self._bytes += len(data)
        if (
            self._head
            and not self._held
            and data.startswith(self._head)
            and data.endswith(self._end)
            and (self._fits(data, len(data) - len(self._end)))
        ):
            return data, 1
        return self._understood(data)

    def _understood(self, data: bytes) -> tuple[bytes, int]:
        """What is not one event like those before it."""
        if self._held:
            data = self._held + data
        if b"\r" in data:
            data = data[:-1].replace(b"\r\n", b"\n") + data[-1:] if data[-1:] == b"\r" else data.replace(b"\r\n", b"\n")
        if data[-2:] == _END:
            block, self._held = data, b""
        else:
            cut = data.rfind(_END) + 2
            block, self._held = (data[:cut], data[cut:]) if cut > 1 else (b"", data)
            if len(self._held) > MOST_EVENT_BYTES:
                self.wrong = f"an event has over {MOST_EVENT_BYTES} bytes"
                self._held = b""
        if self._bytes > _MOST_BYTES:
            self.wrong = f"the answer does not end: over {_MOST_BYTES} bytes"
        return self._passed(block) if block else (b"", 0)

    def end(self) -> tuple[bytes, int]:
        """The stream is over: an event that lacks its empty line still counts, as real servers forget it."""
        left, self._held = self._held.strip(b"\r\n"), b""
        return self._passed(left + _END) if left else (b"", 0)

    def _passed(self, block: bytes) -> tuple[bytes, int]:
        before, kept, drops = len(self.answer.reads), [], False
        for piece in block.split(_END)[:-1]:
            if self.answer.is_done or self.wrong:
                drops = True
                break
            passed = self._takes(piece)
            drops = drops or passed is not piece
            if passed:
                kept.append(passed)
        content = len(self.answer.reads) - before
        if not drops:
            return block, content
        return (_END.join([*kept, b""]) if kept else b""), content

    def _takes(self, piece: bytes) -> bytes:
        """Understand one event; what of it goes on."""
        if (
            self._head
            and piece.startswith(self._head)
            and piece.endswith(self._tail)
            and (self._fits(piece, len(piece) - len(self._tail)))
        ):
            return piece
        data = _data_of(piece)
        if not data:
            return piece  # a comment, by which a server keeps a connection open
        had_usage, chunks = self.answer.usage, len(self.answer.reads)
        try:
            self.answer.take(data, 0)
        except Malformed as wrong:
            self.wrong = str(wrong)
            return b""
        if self.answer.error:
            self.wrong = self.answer.error
            return b""
        if self.answer.is_done:
            return b""
        if not self._takes_ids and len(self.answer.reads) > chunks and self._tries < _MOST_TRIES:
            self._tries += 1
            self._head, self._tail = template_of(piece, data, self.answer)
            self._end = self._tail + _END
        counts_alone = self.answer.usage is not had_usage and len(self.answer.reads) == chunks and _is_empty(data)
        if self._hides_usage and counts_alone:
            return b""
        return self._without_ids(piece, data, len(self.answer.reads) > chunks) if self._takes_ids else piece

    def _fits(self, piece: bytes, tail: int) -> bool:
        """Nearly all events are the same bytes around another text: one that is needs no parser. `tail`: where what
        follows the text begins."""
        text = piece[len(self._head) : tail]
        if tail <= len(self._head) or SIMPLE.fullmatch(text) is None or self._bytes > _MOST_BYTES:
            return False
        answer = self.answer
        if answer.is_done or len(answer.reads) >= MOST_CHUNKS:
            return False
        try:
            answer.parts.append(text.decode())
        except UnicodeDecodeError:
            return False
        answer.reads.append(0)
        return True

    def _without_ids(self, piece: bytes, data: bytes, has_content: bool) -> bytes:
        """The event without the numbers of its tokens, which are kept here."""
        event = json_of(data.decode())
        if self.first is None:
            self.first = {name: event.get(name) for name in ("id", "object", "created", "model")}
        if b"token_ids" not in data:
            return piece
        self.prompt_ids = event.pop("prompt_token_ids", None) or self.prompt_ids
        for choice in event.get("choices", ()):
            self.prompt_ids = choice.pop("prompt_token_ids", None) or self.prompt_ids
            self._later_ids += choice.pop("token_ids", None) or []
        if has_content:
            self.ids, self._later_ids = self.ids + self._later_ids, []
        return b"data: " + json.dumps(event, separators=(",", ":")).encode()


def _data_of(piece: bytes) -> bytes:
    if piece[:6] == b"data: " and b"\n" not in piece:
        return piece[6:]
    lines = [line[5:].removeprefix(b" ") for line in piece.split(b"\n") if line[:5] == b"data:"]
    return b"\n".join(lines)


def _is_empty(data: bytes) -> bool:
    """Whether an event has no choice, so that nothing is in it but counts."""
    return b'"choices":[]' in data or b'"choices": []' in data
