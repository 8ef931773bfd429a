"""Requests for embeddings and rankings of texts, as OpenAI, Jina and Cohere write them, and as vLLM takes them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from twinlens.network.answer.ended import Ended, unanswered
from twinlens.network.answer.meaning import MOST_JSON_BYTES
from twinlens.record.finding import Finding
from twinlens.record.foreign_text import in_one_line
from twinlens.record.request import Request, RequestOutcome
from twinlens.schedule.prompt import Words
from twinlens.schedule.request import ScheduledRequest, request_of
from twinlens.spec.workload.prompt import Embed, Rerank, Task, items_per_request

_QUERY, _ITEM = 5, 6  # stand in the seeds of a query and of the texts of one request


class TextRequests:
    """`path`: that of the endpoint; `head`: header lines; `fixed`: fields of every request, the model among them."""

    forces_length = False
    free = False
    most_json_bytes = MOST_JSON_BYTES

    def __init__(self, task: Embed | Rerank, words: Words, path: str, head: str, fixed: Mapping[str, Any]) -> None:
        self.task, self._words, self._path, self._head, self._fixed = task, words, path, head, dict(fixed)

    def of(self, scheduled: ScheduledRequest, answers: Sequence[str] = ()) -> bytes:
        """Head and body."""
        body = json.dumps(self._asked(scheduled) | self._fixed, separators=(",", ":")).encode()
        return f"POST {self._path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body

    def row(self, scheduled: ScheduledRequest, ended: Ended, origin_ns: int) -> Request:
        """The row of an answer; failed where it is not what was asked for."""
        task = self.task
        if isinstance(task, Embed):
            return row_of_one_answer(
                scheduled, ended, origin_ns, lambda said: embedding_fault(said, task.texts, task.dimension)
            )
        return row_of_one_answer(scheduled, ended, origin_ns, lambda said: rerank_fault(said, task.documents))

    def of_dimension(self, dimension: int | None) -> Self:
        """The same, whose vectors must have this length."""
        other = copy(self)
        if isinstance(self.task, Embed) and self.task.dimension is None:
            other.task = self.task.model_copy(update={"dimension": dimension})
        return other

    def in_one_piece(self) -> Self:
        """The same: its answers are."""
        return self

    def quoting(self, words: Words) -> Self:
        """The same with other words."""
        other = copy(self)
        other._words = words
        return other

    def _asked(self, scheduled: ScheduledRequest) -> dict[str, Any]:
        if isinstance(self.task, Embed):
            return {"input": self._texts(scheduled, self.task.texts, 0)}
        query = self._words.cut((*scheduled.seed, _QUERY), self.task.query_tokens)
        documents = self._texts(scheduled, self.task.documents, self.task.query_tokens)
        if self._path.endswith("/score"):
            return {"text_1": query, "text_2": documents}
        return {"query": query, "documents": documents}

    def _texts(self, scheduled: ScheduledRequest, count: int, beside: int) -> list[str]:
        tokens = max(1, (scheduled.input_tokens - beside) // count)
        return [self._words.cut((*scheduled.seed, _ITEM, i), tokens) for i in range(count)]


# Checks of one answer: how many results it must hold, their length, and that every number is finite. Pure.


def embedding_fault(said: dict[str, Any], texts: int, dimension: int | None) -> str | None:
    """Why these are not `texts` vectors of `dimension` finite numbers (None: of any one length), not all zero."""
    entries = entries_of(said, "data")
    if len(entries) != texts:
        return f"{len(entries)} vectors for {texts} texts"
    vectors = [_numbers(entry.get("embedding")) for entry in entries]
    if any(vector is None for vector in vectors):
        return "a vector holds something else than numbers"
    known = [vector for vector in vectors if vector is not None]
    wanted = dimension or known[0].size
    if wrong := next((vector.size for vector in known if vector.size != wanted), None):
        return f"a vector of {wrong} numbers, not {wanted}"
    if not all(np.isfinite(vector).all() for vector in known):
        return "a vector holds a number that is not finite"
    if not all(vector.any() for vector in known):
        return "a vector is empty or all zero"
    return _order_fault([entry.get("index", i) for i, entry in enumerate(entries)], texts)


def dimension_of(said: dict[str, Any]) -> int | None:
    """Numbers in the first vector; None where there is none."""
    entries = entries_of(said, "data")
    first = _numbers(entries[0].get("embedding")) if entries else None
    return None if first is None else int(first.size)


def rerank_fault(said: dict[str, Any], documents: int) -> str | None:
    """Why this is not one finite score for each of `documents`: `results` of /rerank, or `data` of /score."""
    name, score = ("results", "relevance_score") if "results" in said else ("data", "score")
    entries = entries_of(said, name)
    if len(entries) != documents:
        return f"{len(entries)} scores for {documents} documents"
    if not all(_is_finite(entry.get(score)) for entry in entries):
        return f"a {score} is no finite number"
    return _order_fault([entry.get("index", i) for i, entry in enumerate(entries)], documents)


def tensor_fault(said: dict[str, Any], images: int, width: int | None) -> str | None:
    """Why the first output is not a row of finite numbers for each of `images`; `width`: numbers in a row, if known."""
    outputs = entries_of(said, "outputs")
    if not outputs:
        return "the answer holds no output"
    data, shape = _numbers(outputs[0].get("data")), outputs[0].get("shape")
    if data is None or not data.size or not np.isfinite(data).all():
        return "the output holds something else than finite numbers"
    if not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in shape):
        return "the output says no shape"
    if math.prod(shape) != data.size:
        return f"the output says the shape {shape} and holds {data.size} numbers"
    if not shape or shape[0] != images:
        return f"an output of shape {shape} for {images} images"
    if width is not None and data.size != images * width:
        return f"{data.size // images} numbers for an image, not {width}"
    return None


def entries_of(said: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a list on a page; empty where there is none."""
    found = said.get(name)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _numbers(value: Any) -> np.ndarray | None:
    """A list as a flat array of numbers; None where it holds anything else."""
    if not isinstance(value, list):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return None
    return array.astype(np.float64).ravel() if array.dtype.kind in "iuf" else None


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _order_fault(places: list[Any], count: int) -> str | None:
    numbers = [place for place in places if isinstance(place, int) and not isinstance(place, bool)]
    return None if sorted(numbers) == list(range(count)) else "results do not name each item once"


# Make a row of an exchange whose answer comes in one piece: ok only where the answer holds what was asked for.

_MOST_TOKENS = 2**24
_MOST_PER_TOKEN, _ADDED = 16, 1024
"""Tokens that a server may count for each that was asked for: no word of a prompt has more bytes. And those it adds."""
_COUNTS = ("prompt_tokens", "total_tokens")

Fault = Callable[[dict[str, Any]], str | None]
"""Why an answer is not what was asked for; None where it is."""


def row_of_one_answer(scheduled: ScheduledRequest, ended: Ended, origin_ns: int, fault: Fault) -> Request:
    """The row of an ask, times from `origin_ns`: one chunk of no token, at the moment of the answer's last byte.

    `input_tokens` is what the server's `usage` counts; what was asked for where it counts nothing. A count that cannot
    be fails the request.
    """
    outcome, error = _outcome(scheduled, ended, fault)
    end_ns = ended.end_ns - origin_ns
    is_ok = outcome == "ok"
    return request_of(
        scheduled,
        sent_ns=ended.sent_ns - origin_ns,
        chunk_ns=(end_ns,) if is_ok else (),
        chunk_tokens=(0,) if is_ok else (),
        end_ns=end_ns,
        input_tokens=_counted(ended.answer.said) or scheduled.input_tokens,
        output_tokens=0,
        asked_tokens=None,
        outcome=outcome,
        status=ended.status or None,
        error=None if error is None else in_one_line(error),
        loss=ended.loss,
        lag_ns=int(ended.lags_ns.max()) if len(ended.lags_ns) else None,
        merged_reads=ended.merged,
    )


def prompt_fault(counted: int, asked: int, added: int = _ADDED) -> str | None:
    """Why a server cannot have read `counted` tokens in a prompt of about `asked`, to which something `added` some."""
    if counted <= _MOST_PER_TOKEN * asked + added:
        return None
    return f"the server counts {counted} input tokens, and about {asked} were sent"


def _outcome(scheduled: ScheduledRequest, ended: Ended, fault: Fault) -> tuple[RequestOutcome, str | None]:
    if (why := unanswered(ended)) is not None:
        return why
    if ended.answer.said is None:
        kind = ended.headers.get("content-type", "none")
        return "failed", f"the answer has the content type {kind[:60]}, not application/json"
    said = ended.answer.said
    wrong = fault(said) or _impossible(said) or prompt_fault(_counted(said) or 0, scheduled.input_tokens)
    return ("ok", None) if wrong is None else ("failed", wrong)


def _counted(said: dict[str, Any] | None) -> int | None:
    return next((count for count in _counts(said).values() if _can_be(count) and count), None)


def _impossible(said: dict[str, Any]) -> str | None:
    """Counts of `usage` that cannot be; None where there are none."""
    wrong = [f"{name} {json.dumps(count)[:40]}" for name, count in _counts(said).items() if not _can_be(count)]
    return f"the server counts what cannot be: {', '.join(wrong)}" if wrong else None


def _counts(said: dict[str, Any] | None) -> dict[str, Any]:
    usage = (said or {}).get("usage")
    known = usage if isinstance(usage, dict) else {}
    return {name: known[name] for name in _COUNTS if known.get(name) is not None}


def _can_be(count: Any) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MOST_TOKENS


# Findings on a server whose answers come in one piece: what counts as an answer, and what has no meaning then.


def one_answer_findings(task: Task, width: int | None, *, has_stamps: bool, sent: str = "") -> tuple[Finding, ...]:
    """`width`: numbers in each result, None where nobody said and no request was sent before. `sent`: how an image is
    sent, "" for text."""
    numbers: dict[str, Any] = {"task": task.kind, "items": items_per_request(task)} | (
        {"width": width} if width else {}
    )
    numbers |= {"sent": sent} if sent else {}
    stamps = () if has_stamps else (Finding("no-kernel-stamps", "notes"),)
    return (Finding("one-answer", "notes", "", numbers), *stamps)
