"""Answers as the OpenAI API has them: events of a stream, one object, and errors. All say that they are simulated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from twinlens.simulation.server.asked import Asked, Unfit
from twinlens.simulation.server.tokens import answer_words

FINGERPRINT = "twinlens-simulated"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request: its words, and the bytes around each."""

    asked: Asked
    _words: list[str]
    _plain: dict[str, Any]
    _before: bytes
    _after: bytes

    @classmethod
    def to(cls, asked: Asked, number: int, model: str, created: int) -> Answer:
        """`number`: of the request at this server, for its id. `created`: seconds since 1970."""
        is_chat = asked.kind == "chat"
        plain = {
            "id": f"{'chatcmpl' if is_chat else 'cmpl'}-simulated-{number}",
            "object": "chat.completion.chunk" if is_chat else "text_completion",
            "created": created,
            "model": model,
            "system_fingerprint": FINGERPRINT,
        }
        words = answer_words(asked.seed, asked.output_tokens)
        before, _, after = _event(plain | {"choices": [_choice(asked, "\0", None)]}).partition(b"\\u0000")
        return cls(asked, words, plain, before, after)

    def events(self, first: int, count: int) -> bytes:
        """The event that brings `count` tokens from the `first` on, with what a stream has before and after them."""
        parts = []
        if first == 0 and self.asked.kind == "chat":
            opening = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
            parts.append(_event(self._plain | {"choices": [opening]}))
        text = self._text(first, count)
        if first + count < self.asked.output_tokens:
            return b"".join([*parts, self._before, text.encode(), self._after])
        parts.append(_event(self._plain | {"choices": [_choice(self.asked, text, self.asked.finish)]}))
        if self.asked.with_usage:
            parts.append(_event(self._plain | {"choices": [], "usage": self.usage()}))
        return b"".join([*parts, DONE])

    def whole(self) -> dict[str, Any]:
        """The answer in one piece."""
        text, finish = self._text(0, self.asked.output_tokens), self.asked.finish
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
        if self.asked.kind == "chat":
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        kind = "chat.completion" if self.asked.kind == "chat" else "text_completion"
        return self._plain | {"object": kind, "choices": [choice], "usage": self.usage()}

    def _text(self, first: int, count: int) -> str:
        text = "".join(self._words[i % len(self._words)] for i in range(first, first + count))
        return text[1:] if first == 0 else text

    def usage(self) -> dict[str, int]:
        prompt, answer = self.asked.prompt_tokens, self.asked.output_tokens
        return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def refusal(wrong: Unfit) -> dict[str, Any]:
    """The body of an error."""
    kinds = {400: "BadRequestError", 404: "NotFoundError", 429: "RateLimitError"}
    kind = kinds.get(wrong.status, "InternalServerError")
    return {"error": {"message": str(wrong), "type": kind, "param": wrong.field, "code": wrong.status}}


def _choice(asked: Asked, text: str, finish: str | None) -> dict[str, Any]:
    said = {"delta": {"content": text}} if asked.kind == "chat" else {"text": text}
    return {"index": 0, **said, "logprobs": None, "finish_reason": finish}


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
