"""Requests as the OpenAI API has them, read or refused as vLLM refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twinlens.simulation.server.tokens import Count, natural_length, seed_of

Kind = Literal["chat", "completions"]
_DEFAULT_TOKENS = 16  # of /v1/completions, as OpenAI has it


class Unfit(Exception):
    """A request that is refused: HTTP status, sentence, and the field that is wrong."""

    def __init__(self, status: int, sentence: str, field: str | None = None) -> None:
        super().__init__(sentence)
        self.status, self.field = status, field


@dataclass(frozen=True, slots=True)
class Served:
    """The model that is answered for. `answer_tokens`: mean length at which answers end by themselves; None: they run
    to the limit. `max_model_len`: prompt and answer that a request may have; None: any."""

    model: str
    count: Count
    max_model_len: int | None = None
    answer_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `output_tokens`: of its answer; `finish`: the reason for which that ends.

    `group`, `shared_tokens`: prompts of one group begin with the same tokens: those of their system message. -1: none.
    """

    kind: Kind
    prompt: str
    prompt_tokens: int
    output_tokens: int
    finish: Literal["length", "stop"]
    seed: int
    priority: int
    streams: bool
    with_usage: bool
    group: int = -1
    shared_tokens: int = 0


def read(kind: Kind, body: Any, served: Served) -> Asked:
    """What a body asks for. Raises Unfit."""
    if not isinstance(body, Mapping):
        raise Unfit(400, "the body is a JSON object")
    if (model := body.get("model") or served.model) != served.model:
        raise Unfit(404, f"The model `{model}` does not exist; this server simulates `{served.model}`.", "model")
    for field, sentence in _BEYOND.items():
        if body.get(field) not in _HARMLESS.get(field, (None, False)):
            raise Unfit(400, sentence, field)
    prompt, tokens = _prompt(kind, body, served.count)
    seed = seed_of(prompt, _whole(body, "seed", 0, None))
    output, finish = _length(kind, body, served, tokens, seed)
    options = body.get("stream_options") or {}
    return Asked(
        kind,
        prompt,
        tokens,
        output,
        finish,
        seed,
        _whole(body, "priority", 0, None),
        bool(body.get("stream")),
        isinstance(options, Mapping) and bool(options.get("include_usage")),
        *_shared(kind, body, served.count),
    )


_BEYOND = {
    "n": "this server is simulated and gives one answer to a request: n must be 1",
    "logprobs": "this server is simulated and has no log probabilities",
    "prompt_logprobs": "this server is simulated and has no log probabilities",
    "echo": "this server is simulated and does not echo prompts",
}
_HARMLESS: Mapping[str, tuple[Any, ...]] = {"n": (None, 1)}


def _prompt(kind: Kind, body: Mapping[str, Any], count: Count) -> tuple[str, int]:
    if kind == "chat":
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise Unfit(400, "messages is a list of at least one message", "messages")
        text = "\n".join(_content(message) for message in messages)
        return text, max(1, count(text))
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt, max(1, count(prompt))
    if isinstance(prompt, list) and prompt and all(type(each) is int for each in prompt):
        return " ".join(map(str, prompt)), len(prompt)
    raise Unfit(400, "prompt is one text or one list of token ids", "prompt")


def _shared(kind: Kind, body: Mapping[str, Any], count: Count) -> tuple[int, int]:
    first = body["messages"][0] if kind == "chat" else {}
    if first.get("role") != "system":
        return -1, 0
    text = _content(first)
    return seed_of(text, 0) >> 1, count(text)


def _content(message: Any) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else None for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) == len(parts):
            return "\n".join(texts)
    if content is None and isinstance(message, Mapping) and isinstance(message.get("role"), str):
        return ""
    if not isinstance(content, str):
        raise Unfit(400, "the content of a message is text, or a list of parts of text", "messages")
    return content


def _length(
    kind: Kind, body: Mapping[str, Any], served: Served, prompt_tokens: int, seed: int
) -> tuple[int, Literal["length", "stop"]]:
    left = None if served.max_model_len is None else served.max_model_len - prompt_tokens
    field = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    limit = _whole(body, field, 0, 1)
    if left is not None and left < max(1, limit):
        raise Unfit(
            400,
            f"This model's maximum context length is {served.max_model_len} tokens. However, you requested "
            f"{limit or 1} output tokens and your prompt contains {prompt_tokens} input tokens.",
            field,
        )
    if not limit:
        most = _DEFAULT_TOKENS if kind == "completions" else round(4 * (served.answer_tokens or 64))
        limit = most if left is None else min(most, left)
    least = _whole(body, "min_tokens", 0, 0)
    if least > limit:
        raise Unfit(400, f"min_tokens {least} is more than the limit of {limit} tokens", "min_tokens")
    if served.answer_tokens is None or body.get("ignore_eos"):
        return limit, "length"
    natural = max(least, natural_length(seed, served.answer_tokens))
    return (natural, "stop") if natural < limit else (limit, "length")


def _whole(body: Mapping[str, Any], field: str, default: int, least: int | None) -> int:
    value = body.get(field)
    if value is None:
        return default
    if type(value) is not int or (least is not None and value < least):
        raise Unfit(400, f"{field} is a whole number" + ("" if least is None else f" of at least {least}"), field)
    return value
