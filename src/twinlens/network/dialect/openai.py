"""The bytes of a request: what one scheduled request asks of a server, and a request for one of its pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from twinlens.network.answer.ended import Ended, unanswered
from twinlens.network.answer.events import Answer
from twinlens.network.dialect.endpoint import head_lines
from twinlens.network.dialect.one_answer import prompt_fault
from twinlens.network.target import PATHS, Target
from twinlens.record.foreign_text import in_one_line, whole
from twinlens.record.request import Request, RequestOutcome
from twinlens.record.sections import Response
from twinlens.schedule.prompt import Words, messages, prompt_text
from twinlens.schedule.request import ScheduledRequest, request_of


class RequestWriter:
    """Makes the bytes of requests for tokens. `model`: the name that the server goes by."""

    most_json_bytes = 2 * 2**20

    def __init__(
        self, target: Target, words: Words, model: str, *, force_length: bool, with_usage: bool = True
    ) -> None:
        self._target, self._words = target, words
        self._path = target.path + PATHS[target.endpoint]
        self._head = head_lines(target.headers())
        self._fixed: dict[str, Any] = {"model": model, "stream": True, "temperature": 0}
        if with_usage:
            self._fixed["stream_options"] = {"include_usage": True}
        self._fixed |= target.body
        self.forces_length = force_length
        self.free = False

    def ending_freely(self) -> Self:
        """The same, for answers that end when the model is done."""
        other = copy(self)
        other.forces_length, other.free = False, True
        return other

    def in_one_piece(self) -> Self:
        """The same, but for answers that are not streamed."""
        other = copy(self)
        other._fixed = {key: value for key, value in self._fixed.items() if key != "stream_options"} | {"stream": False}
        return other

    def quoting(self, words: Words) -> Self:
        """The same with other words."""
        other = copy(self)
        other._words = words
        return other

    def row(self, scheduled: ScheduledRequest, ended: Ended, origin_ns: int) -> Request:
        """The row of an exchange that is over, times from `origin_ns`."""
        return row_of(scheduled, ended, origin_ns, free=self.free, forced=self.forces_length)

    def of(self, scheduled: ScheduledRequest, answers: Sequence[str] = ()) -> bytes:
        """Head and body. `answers`: what was really said in the earlier turns of its session."""
        if self._target.endpoint == "chat":
            asked: dict[str, Any] = {"messages": messages(scheduled, self._words, answers)}
        else:
            asked = {"prompt": prompt_text(scheduled, self._words)}
        asked[self._target.limit_field] = scheduled.output_tokens
        if self.forces_length:
            asked |= {"ignore_eos": True, "min_tokens": scheduled.output_tokens}
        body = json.dumps(asked | self._fixed, separators=(",", ":")).encode()
        return f"POST {self._path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


# Make a row of an exchange that has ended: ok, refused, failed or cut off.

_MOST_TOKENS = 2**24
"""Above the longest context that any model has; a count that is not between 0 and this counts nothing."""
_OWN_ENDS = ("stop", "length", "tool_calls", "function_call")
"""Reasons with which an answer that is free to end has ended well; without one, it was cut off."""
_COUNTS = ("prompt_tokens", "completion_tokens")
_MOST_ADDED = 8192
"""Tokens of a prompt that a chat template or a gateway may add."""
_UNSENT_END = 1
"""The token that ends an answer, which a server may count and does not send."""
_CALLS = ("tool_calls", "function_call")


def row_of(
    scheduled: ScheduledRequest, ended: Ended, origin_ns: int, *, free: bool = False, forced: bool = False
) -> Request:
    """The row of an ask. Times count from `origin_ns`. `free`: the model may end its answer before the limit; `forced`:
    it may not, so that its text may lack tokens that end answers and are not shown.

    `output_tokens` is the server's `usage`; where it says none, the asked number if it stopped for length, else one a
    chunk. `end_ns` is the last chunk's time for what ended well, else when that was known: a failure is never quick.
    Where `usage` and the number of chunks differ, nobody knows which chunk held how many: the tokens are spread evenly
    over the chunks, so that their sum is right, and a chunk that does not hold one token says that no gap is an ITL.
    An answer whose `usage` cannot be has failed: more tokens than the limit, more than its chunks and (unless `forced`)
    its text can hold, or more in the prompt than its words can be.
    """
    impossible = _impossible(scheduled, ended.answer, forced)
    tokens = len(ended.chunk_ns) if impossible else _tokens(scheduled, ended, forced)
    outcome, error = _outcome(scheduled, ended, tokens, free, impossible)
    chunk_ns = ended.chunk_ns - origin_ns
    return request_of(
        scheduled,
        sent_ns=ended.sent_ns - origin_ns,
        chunk_ns=tuple(chunk_ns.tolist()),
        chunk_tokens=_spread(tokens, len(chunk_ns)),
        end_ns=ended.end_ns - origin_ns,
        input_tokens=(None if impossible else _count(ended.answer, "prompt_tokens")) or scheduled.input_tokens,
        output_tokens=tokens,
        asked_tokens=None if free else scheduled.output_tokens,
        outcome=outcome,
        status=ended.status or None,
        error=None if error is None else in_one_line(error),
        loss=ended.loss,
        lag_ns=int(ended.lags_ns.max()) if len(ended.lags_ns) else None,
        merged_reads=ended.merged,
        reasoning_chunks=ended.answer.reasoning,
    )


def response_of(ended: Ended) -> Response:
    """What the answer said, for those who look at its text."""
    answer = ended.answer
    chunks = len(answer.reads)
    return Response(
        text=answer.text,
        first=whole(answer.parts[0]) if answer.parts else "",
        chunks=chunks,
        counted_tokens=_count(answer, "completion_tokens"),
        prompt_tokens=_count(answer, "prompt_tokens"),
        finish=answer.finish,
        late_chunks=0 if answer.chunks_at_finish is None else chunks - answer.chunks_at_finish,
        reasoning_chunks=answer.reasoning,
    )


def _in_one_piece(ended: Ended) -> bool:
    """Whether the answer was one JSON object and no stream of events."""
    return ended.status == 200 and ended.headers.get("content-type", "").lower().startswith("application/json")


def _tokens(scheduled: ScheduledRequest, ended: Ended, forced: bool) -> int:
    chunks = len(ended.chunk_ns)
    counted = _count(ended.answer, "completion_tokens")
    if counted is not None and chunks:
        return counted
    if (
        ended.fault is None
        and ended.answer.finish == "length"
        and chunks
        and _holds(ended.answer, scheduled.output_tokens)
    ):
        return scheduled.output_tokens
    return chunks


def _outcome(
    scheduled: ScheduledRequest, ended: Ended, tokens: int, free: bool, impossible: str | None
) -> tuple[RequestOutcome, str | None]:
    answer = ended.answer
    if (nothing := unanswered(ended)) is not None:
        return nothing
    if impossible:
        return "failed", impossible
    if not len(ended.chunk_ns):
        kind = ended.headers.get("content-type", "none")
        if kind.lower().startswith(("text/event-stream", "application/json")):
            return "failed", "the answer holds no token"
        return "failed", f"the answer has the content type {kind[:60]}, not text/event-stream"
    if tokens < scheduled.output_tokens and not (free and answer.finish in _OWN_ENDS):
        why = f"finish_reason {answer.finish}" if answer.finish else "no finish_reason"
        unstreamed = "; the answer came in one piece, not as a stream" if _in_one_piece(ended) else ""
        return "cut_off", f"{tokens} of {scheduled.output_tokens} tokens, {why}{unstreamed}"
    return "ok", None


def _count(answer: Answer, name: str) -> int | None:
    counted: Any = (answer.usage or {}).get(name)
    return counted if _can_be(counted) else None


def _can_be(counted: Any) -> bool:
    return isinstance(counted, int) and not isinstance(counted, bool) and 0 <= counted <= _MOST_TOKENS


def _impossible(scheduled: ScheduledRequest, answer: Answer, forced: bool) -> str | None:
    """Why the counts of `usage` cannot be; None where they can, or where there are none."""
    said = ((name, (answer.usage or {}).get(name)) for name in _COUNTS)
    wrong = [f"{name} {json.dumps(value)[:40]}" for name, value in said if value is not None and not _can_be(value)]
    if wrong:
        return f"the server counts what cannot be: {', '.join(wrong)}"
    counted, limit = _count(answer, "completion_tokens") or 0, scheduled.output_tokens
    if counted > limit + _UNSENT_END:
        return f"the server counts {counted} output tokens, and the limit was {limit}"
    if answer.reads and not forced and not _holds(answer, counted):
        return (
            f"the server counts {counted} output tokens, and its {len(answer.reads)} chunks hold "
            f"{_utf8_bytes(answer.text) + answer.thought_bytes} bytes of text"
        )
    return prompt_fault(_count(answer, "prompt_tokens") or 0, scheduled.input_tokens, _MOST_ADDED)


def _holds(answer: Answer, tokens: int) -> bool:
    """Whether the answer can hold so many tokens: each has a chunk, or a byte of text, or is declared as reasoning that
    is not shown."""
    if tokens <= len(answer.reads) + _UNSENT_END or answer.finish in _CALLS:
        return True
    details = (answer.usage or {}).get("completion_tokens_details")
    hidden = details.get("reasoning_tokens") if isinstance(details, dict) else None
    shown = tokens - (hidden if isinstance(hidden, int) and _can_be(hidden) else 0)
    return shown <= _utf8_bytes(answer.text) + answer.thought_bytes + _UNSENT_END


def _utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _spread(tokens: int, chunks: int) -> tuple[int, ...]:
    if tokens == chunks:
        return (1,) * chunks
    return tuple(np.diff(np.arange(chunks + 1) * tokens // chunks).tolist()) if chunks else ()
