"""A request as it came, read once: what routing, limits and rows need of it. Everything else passes through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from twinlens.gateway.refusal import Refusal
from twinlens.record.foreign_text import in_one_line
from twinlens.system.document import strict_json_of

Kind = Literal["chat", "completions", "embeddings"]
PATHS: dict[Kind, str] = {"chat": "/chat/completions", "completions": "/completions", "embeddings": "/embeddings"}
FORBIDDEN = ("api_base", "base_url", "api_key", "api_version", "custom_llm_provider")
"""Fields by which other gateways let a client say where its request goes, and with which key."""
_LIMITS = ("max_completion_tokens", "max_tokens")
_DEFAULT_TOKENS = {"chat": None, "completions": 16, "embeddings": 0}
_PREFIX_LETTERS = 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """`prompt_bytes`: of its text as UTF-8; `most_tokens`: of the answer, None where it does not say; `prefix`: a
    number that prompts with the same beginning share; `is_structured`: tools or a format of the answer are asked for;
    `choices`: answers asked for at once."""

    kind: Kind
    model: str
    body: dict[str, Any]
    streams: bool
    wants_usage: bool
    prompt_bytes: int
    most_tokens: int | None
    prefix: int
    is_structured: bool
    choices: int = 1


def read(kind: Kind, raw: bytes) -> Asked:
    """Raises Refusal (400) for what no server could answer."""
    body = _object(raw)
    for field in FORBIDDEN:
        if field in body:
            raise Refusal(
                400, f"{field} is not taken from a request; backends stand in the gateway's file", param=field
            )
    model = body.get("model", "")
    if not isinstance(model, str):
        raise Refusal(400, "model is a text", param="model")
    streams = body.get("stream") or False
    if not isinstance(streams, bool):
        raise Refusal(400, "stream is true or false", param="stream")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise Refusal(400, "stream_options is an object", param="stream_options")
    text = prompt_text(kind, body)
    return Asked(
        kind, model, body, streams and kind != "embeddings", bool(options and options.get("include_usage")),
        len(text.encode("utf-8", "replace")), _most_tokens(kind, body), hash(text[:_PREFIX_LETTERS]),
        any(body.get(each) for each in ("tools", "functions", "response_format", "structured_outputs", "guided_json")),
        _choices(body),
    )  # fmt: skip


def prompt_text(kind: Kind, body: dict[str, Any]) -> str:
    """The text of a prompt, as far as it is text. Raises Refusal (400) where there is none."""
    if kind == "chat":
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise Refusal(400, "messages is a list of at least one message", param="messages")
        return "\n".join(_content(each) for each in messages)
    field = "prompt" if kind == "completions" else "input"
    given = body.get(field)
    if isinstance(given, str) and given:
        return given
    if isinstance(given, list) and given:
        return " ".join(map(str, given))
    raise Refusal(400, f"{field} is a text, or a list of texts or of token numbers", param=field)


def _content(message: Any) -> str:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise Refusal(400, "each message is an object with a role", param="messages")
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if content is not None and not isinstance(content, str):
        raise Refusal(400, "the content of a message is text, or a list of parts", param="messages")
    return content or ""


def _most_tokens(kind: Kind, body: dict[str, Any]) -> int | None:
    for field in _LIMITS:
        if (value := body.get(field)) is not None:
            if type(value) is not int or value < 1:
                raise Refusal(400, f"{field} is a whole number of at least 1", param=field)
            return value
    return _DEFAULT_TOKENS[kind]


def _choices(body: dict[str, Any]) -> int:
    count = body.get("n")
    if count is None:
        return 1
    if type(count) is not int or not 1 <= count <= 128:
        raise Refusal(400, "n is a whole number from 1 to 128", param="n")
    return count


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = strict_json_of(raw.decode())
    except ValueError as wrong:
        raise Refusal(400, f"the body is no JSON: {in_one_line(str(wrong), 100)}") from None
    if not isinstance(body, dict):
        raise Refusal(400, "the body is a JSON object")
    return body
