"""Requests for embeddings and rankings of texts, as OpenAI, Jina and Cohere write them, and as vLLM takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

from twinlens.executors.http_client.answer.ended import Ended
from twinlens.executors.http_client.answer.meaning import MOST_JSON_BYTES
from twinlens.executors.one_answer.check import embedding_fault, rerank_fault
from twinlens.executors.one_answer.row import row_of_one_answer
from twinlens.record.request import Request
from twinlens.schedule.content.prompt import Words
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.workload.task import Embed, Rerank

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
