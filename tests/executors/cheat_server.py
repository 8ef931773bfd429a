"""What a server does that answers each prompt with words of its own, honestly or cheating in one way."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hostile_server import DONE, END, HEAD, Asked, chunk, said, usage

WORDS = ("sun", "moon", "rain", "leaf", "stone", "river", "cloud", "field", "bird", "snow", "wind", "tree")


def words_of(prompt: str, count: int) -> list[str]:
    """The greedy answer to a prompt."""
    drawn = hashlib.shake_128(prompt.encode()).digest(count)
    return [" " + WORDS[byte % len(WORDS)] for byte in drawn]


@dataclass
class Server:
    """Honest as it stands. `pause_s`: between tokens; `prefill_s`: before them; the other fields say how it cheats.

    `words`: what it says, given its words and how many requests are under way. `claims`: the tokens it counts for so
    many. `first`: what it sends before the answer. `tail`: what it sends after the reason to end. `remembers`: answers
    a prompt that it has seen at once. `knows_prefixes`: starts at once on such a prompt, and decodes as ever.
    """

    pause_s: float = 0.0005
    prefill_s: float = 0.0
    words: Callable[[list[str], int], list[str]] = lambda words, under_way: words
    claims: Callable[[int], int] = lambda count: count
    first: str = ""
    tail: str = ""
    finish: str = "length"
    remembers: bool = False
    knows_prefixes: bool = False
    _seen: set[str] = field(default_factory=set)
    _lock: Any = field(default_factory=threading.Lock)
    _under_way: int = 0

    def __call__(self, asked: Asked) -> None:
        with self._lock:
            self._under_way += 1
        try:
            self._answer(asked)
        finally:
            with self._lock:
                self._under_way -= 1

    def _answer(self, asked: Asked) -> None:
        prompt = " ".join(message["content"] for message in asked.body["messages"])
        is_known = prompt in self._seen
        self._seen.add(prompt)
        words = self.words(words_of(prompt, asked.tokens), self._under_way)
        counts = {"prompt_tokens": len(prompt.split()) + 3, "completion_tokens": self.claims(len(words))}
        if not asked.body["stream"]:
            choice = {"index": 0, "message": {"content": "".join(words)}, "finish_reason": self.finish}
            body = json.dumps({"choices": [choice], "usage": counts}).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            asked.send(head.encode() + body)
            return
        asked.send(HEAD)
        if not (is_known and (self.knows_prefixes or self.remembers)):
            time.sleep(self.prefill_s)
        if is_known and self.remembers:  # in one write: on a busy machine each write may wait for its turn
            asked.send(*[chunk(said(content=word)) for word in words])
        else:
            for word in [self.first, *words] if self.first else words:
                time.sleep(self.pause_s)
                asked.send(chunk(said(content=word)))
        asked.send(chunk(said(self.finish)), *([chunk(said(content=self.tail))] if self.tail else []))
        asked.send(chunk(usage(counts["completion_tokens"], counts["prompt_tokens"])), chunk(DONE), END)
