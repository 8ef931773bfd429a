"""Going on with an answer on another backend of the same weights: no token twice, none missing.

By the numbers of its tokens where the first backend gave them: the second one continues that very sequence, through its
plain endpoint. Else by the text so far, which a tokenizer may cut otherwise than it was made; for greedy decoding and a
text that is cut the way it was made the outcome is the same.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twinlens.gateway.asked import PATHS, Asked
from twinlens.gateway.backend import Backend
from twinlens.gateway.relay.passing import Passing
from twinlens.gateway.relay.upstream import Posting
from twinlens.gateway.relay.wire import Pool
from twinlens.network.answer.events import Answer
from twinlens.system.document import json_of

_TRY_S, _MOST_TRY_BYTES = 20.0, 2**16


@dataclass(frozen=True, slots=True)
class SoFar:
    """An answer that broke off: its `text`, `made` tokens, and their numbers where they are known."""

    text: str
    made: int
    ids: tuple[int, ...] = ()
    prompt_ids: tuple[int, ...] = ()


def so_far(passing: Passing, earlier: SoFar | None = None) -> SoFar:
    """What has been passed on; `earlier`: by the backends before this one."""
    before = earlier or SoFar("", 0)
    ids = (*before.ids, *passing.ids)
    known = bool(passing.ids) and len(before.ids) == before.made
    made = len(ids) if known else before.made + len(passing.answer.reads)
    return SoFar(
        before.text + passing.answer.text, made, ids if known else (), before.prompt_ids or tuple(passing.prompt_ids)
    )


def refusal(asked: Asked, answer: Answer) -> str:
    """Why an answer cannot be continued by another backend; "" where it can."""
    if asked.kind == "embeddings" or not asked.streams:
        return "it is not streamed"
    if asked.is_structured:
        return "tools or a format of the answer were asked for, and half of one has no meaning"
    if asked.choices > 1:
        return "several answers were asked for at once"
    if asked.body.get("frequency_penalty") or asked.body.get("presence_penalty"):
        return "its penalties count the answer's own tokens, which would begin anew"
    if answer.reasoning or answer.thought_bytes:
        return "it reasons, and the reasoning is not kept"
    if asked.kind == "completions" and not isinstance(asked.body.get("prompt"), str):
        return "its prompt is no text"
    return ""


def posting_of(asked: Asked, backend: Backend, done: SoFar) -> Posting:
    """The request for the rest."""
    body: dict[str, Any] = {**asked.body, "stream_options": {"include_usage": True}}
    if backend.model:
        body["model"] = backend.model
    for field in ("max_tokens", "max_completion_tokens"):
        if body.get(field) is not None:
            body[field] = max(1, body[field] - done.made)
    if isinstance(body.get("min_tokens"), int):
        body["min_tokens"] = max(0, body["min_tokens"] - done.made)
    kind = asked.kind
    if done.ids and done.prompt_ids:
        body = {name: value for name, value in body.items() if name not in ("messages", "max_completion_tokens")}
        if asked.most_tokens is not None:
            body["max_tokens"] = max(1, asked.most_tokens - done.made)
        body["prompt"], kind = [*done.prompt_ids, *done.ids], "completions"
    elif asked.kind == "chat":
        last = {"role": "assistant", "content": done.text}
        body |= {"messages": [*body["messages"], last], "add_generation_prompt": False, "continue_final_message": True}
    else:
        body["prompt"] = body["prompt"] + done.text
    if backend.gives_token_ids:
        body["return_token_ids"] = True
    return Posting(kind, json.dumps(body, separators=(",", ":")).encode())


def translated(block: bytes, first: Mapping[str, Any] | None, asked: Asked) -> bytes:
    """Events of the second backend as the first would have sent them: its id, its form, without counts and openings."""
    out = []
    for piece in block.split(b"\n\n")[:-1]:
        if not piece.startswith(b"data: "):
            continue
        event = json_of(piece[6:].decode("utf-8", "replace"))
        choices = [_in_form(each, asked.kind == "chat") for each in event.get("choices") or ()]
        kept = [each for each in choices if each is not None]
        if kept:
            plain = {**event, **(first or {}), "choices": kept}
            plain.pop("usage", None)
            out.append(_event(plain))
    return b"".join(out)


def _in_form(choice: Mapping[str, Any], is_chat: bool) -> dict[str, Any] | None:
    """A choice in the form that the client asked for; None for one that says nothing more."""
    delta = choice.get("delta")
    text = choice.get("text") if delta is None else (delta or {}).get("content")
    finish = choice.get("finish_reason")
    if not text and finish is None:
        return None
    said: dict[str, Any] = {"delta": {"content": text} if text else {}} if is_chat else {"text": text or ""}
    return {"index": 0, **said, "logprobs": choice.get("logprobs"), "finish_reason": finish}


def closing(first: Mapping[str, Any] | None, asked: Asked) -> bytes:
    """The last event of an answer that had reached its length when the backend was lost."""
    said: dict[str, Any] = {"delta": {}} if asked.kind == "chat" else {"text": ""}
    choice = {"index": 0, **said, "logprobs": None, "finish_reason": "length"}
    return _event({**(first or {}), "choices": [choice]})


def counts(first: Mapping[str, Any] | None, prompt: int, made: int) -> bytes:
    """The event with the counts of the whole answer."""
    usage = {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}
    return _event({**(first or {}), "choices": [], "usage": usage})


def _event(content: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


async def gives_token_ids(pool: Pool, backend: Backend) -> bool | None:
    """Whether it gives the numbers of its tokens where they are asked for: found out by one answer of one token. None
    where it did not answer."""
    body = {"model": backend.model, "prompt": "a", "max_tokens": 1, "temperature": 0, "return_token_ids": True}
    try:
        async with asyncio.timeout(_TRY_S):
            wire = await pool.post(PATHS["completions"], json.dumps(body).encode())
            try:
                reply, whole = await wire.head(), b""
                while len(whole) < _MOST_TRY_BYTES and (data := await wire.read()):
                    whole += data
            finally:
                wire.close()
        (choice,) = json_of(whole.decode())["choices"]
        return reply.status == 200 and bool(choice["token_ids"]) and bool(choice.get("prompt_token_ids"))
    except OSError:
        return None
    except (ValueError, KeyError, TypeError):
        return False
