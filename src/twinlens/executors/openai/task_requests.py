"""Requests of a workload's task at an OpenAI server: which endpoint, and the request that is tried first."""

from __future__ import annotations

from dataclasses import replace

from twinlens.errors import BadInput
from twinlens.executors.one_answer.text_request import TextRequests
from twinlens.executors.openai.request_writer import Requests, RequestWriter, head_lines
from twinlens.executors.openai.target import PATHS, ApiKind, Target
from twinlens.schedule.content.prompt import Words
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.workload.task import Embed, Rerank, Task

_TOKENS = 8
_ENDPOINTS: dict[str, tuple[ApiKind, ...]] = {"embed": ("embeddings",), "rerank": ("rerank", "score")}
_STREAMED: tuple[ApiKind, ...] = ("chat", "completions")


def for_task(target: Target, task: Task) -> Target:
    """The target with the endpoint of the task, where the options name none of its own. Raises BadInput (TL207)."""
    fit = _ENDPOINTS.get(task.kind, _STREAMED)
    if target.endpoint in fit:
        return target
    if target.endpoint != "chat":
        raise BadInput(
            f"executor.options.endpoint {target.endpoint!r} does not fit workload.task.kind = {task.kind!r}, which "
            f"asks {' or '.join(fit)}",
            code="TL207",
        )
    return replace(target, endpoint=fit[0])


def first_tries(target: Target, words: Words, model: str, task: Task) -> tuple[Requests, ...]:
    """Writers of requests, from the one with the most useful fields on: a server may not take them all."""
    if isinstance(task, Embed | Rerank):
        head = head_lines(target.headers() | {"Accept": "application/json"})
        path = target.path + PATHS[target.endpoint]
        return (TextRequests(task, words, path, head, {"model": model, **target.body}),)
    force = [True, False] if target.force_length is None else [target.force_length]
    ways = [(forced, True) for forced in force] + [(force[-1], False)]
    return tuple(RequestWriter(target, words, model, force_length=forced, with_usage=usage) for forced, usage in ways)


def short_request(task: Task) -> ScheduledRequest:
    """A short request of the task, that no request of a run is equal to."""
    texts, query = 1, 0
    if isinstance(task, Embed):
        texts = task.texts
    elif isinstance(task, Rerank):
        texts, query = task.documents, task.query_tokens
    tokens = 0 if isinstance(task, Embed | Rerank) else 4
    return ScheduledRequest(0, 0, 0, input_tokens=query + texts * _TOKENS, output_tokens=tokens, seed=(0x7717, 0))
