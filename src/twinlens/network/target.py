"""The server and how to send requests to it, and which clients send them: addresses, keys and names, checked."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urlsplit

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.version import __version__

if TYPE_CHECKING:
    import ssl

ApiKind = Literal["chat", "completions", "embeddings", "rerank", "score"]
STREAMED: dict[str, str] = {"chat": "/chat/completions", "completions": "/completions"}
PATHS: dict[str, str] = {**STREAMED, "embeddings": "/embeddings", "rerank": "/rerank", "score": "/score"}
SIMULATED = "x-twinlens-simulated"
"""The header by which a simulated server says that it is one."""
_MOST_CLIENTS = 1024
_HEADER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_OUR_HEADERS = (
    "host",
    "user-agent",
    "accept",
    "accept-encoding",
    "content-type",
    "content-length",
    "transfer-encoding",
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect. `tls`: the settings, or None for plain TCP; `host`: the name its certificate must bear."""

    family: int
    sockaddr: Any
    host: str
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One server. `url` as far as /v1; `body`: fields that every request carries; `api_key` is never shown,
    and goes in `key_header`.

    `force_length`: whether requests carry `ignore_eos` and `min_tokens` (a server that forbids unknown fields answers
    422); None: found out by asking. `limit_field`: max_tokens or max_completion_tokens. `probe`: ask once before.
    `metrics_url`: where the server tells its own figures; "": /metrics beside /v1; "off": they are not read.
    `dcgm_url`: where dcgm-exporter tells counters of the server's GPUs; "": they are not read.
    `reference`: a server (as far as /v1) or a folder that answers are compared with; "": as the executor knows.
    """

    url: str
    model: str = ""
    endpoint: ApiKind = "chat"
    timeout_s: float = 300.0
    force_length: bool | None = None
    limit_field: str = "max_tokens"
    body: Mapping[str, Any] = field(default_factory=dict)
    api_key: str = field(default="", repr=False)
    key_header: str = "Authorization"
    ca_file: str = ""
    kernel_stamps: bool = True
    probe: bool = True
    metrics_url: str = ""
    dcgm_url: str = ""
    reference: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def is_tls(self) -> bool:
        return urlsplit(self.url).scheme == "https"

    @property
    def path(self) -> str:
        """The path before the endpoint's."""
        return urlsplit(self.url).path.rstrip("/")

    def tls(self) -> ssl.SSLContext | None:
        """The context that checks certificates; None without TLS. Raises BadInput for a CA file that is none."""
        return tls_context(self.ca_file) if self.is_tls else None

    def addresses(self) -> list[Address]:
        """Where it may be, in the resolver's order. Raises ExecutorFailed for a name that has no address."""
        try:
            resolved = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as wrong:
            raise ExecutorFailed(f"the host of {self.url} is not known: {wrong}", code="TL302") from None
        tls = self.tls()
        return [Address(family, sockaddr, self.host, tls) for family, _, _, _, sockaddr in resolved]

    def headers(self) -> dict[str, str]:
        """Of every request. Nothing compressed is asked for: unpacking would cost what is measured."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        headers = {
            "Host": f"{host}:{self.port}",
            "User-Agent": f"twinlens/{__version__}",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        return headers | self.key_headers()

    def key_headers(self) -> dict[str, str]:
        """The header that holds the key; none without one."""
        return key_header(self.key_header, self.api_key) if self.api_key else {}


@dataclass(frozen=True, slots=True)
class KServeTarget:
    """`target`: where and how, its path that before /v2. `shape`: of one image, empty where the server says it."""

    target: Target
    model: str
    version: str
    shape: tuple[int, ...]
    binary: bool | None

    @property
    def path(self) -> str:
        """The path of the model's metadata; /infer behind it asks."""
        version = f"/versions/{self.version}" if self.version else ""
        return f"{self.target.path}/v2/models/{self.model}{version}"


def key_header(name: str, key: str) -> dict[str, str]:
    """A key as a server wants it: a bearer token in Authorization, as it is in any other header."""
    return {name: f"Bearer {key}" if name.lower() == "authorization" else key}


def tls_context(ca_file: str) -> ssl.SSLContext:
    """A context that checks certificates. Raises BadInput (TL207) for a CA file that is none."""
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as wrong:  # of which ssl.SSLError is one
        raise BadInput(f"executor.options.ca_file {ca_file!r} cannot be read: {wrong}", code="TL207") from None


def address_of(text: str) -> SplitResult | None:
    """The parts of an http(s) address that can be sent: ASCII without spaces, each label of its host 1 to 63 letters.
    None where it is none."""
    try:
        parts = urlsplit(text)
        labels = (parts.hostname or "").removesuffix(".").split(".")
        is_known = parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        return None
    is_sent = text.isascii() and text.isprintable() and " " not in text
    return parts if is_known and is_sent and all(0 < len(label) < 64 for label in labels) else None


def server_url(
    text: str, kind: str = "openai-http", example: str = "http://127.0.0.1:8000/v1", option: str = "url"
) -> str:
    """The address of a server, checked. `kind`: of executor, an `example` of its address, and the `option` that holds
    it, for the sentences.

    Raises BadInput (TL207).
    """
    if text and "://" not in text:
        raise BadInput(
            f'executor.options.{option} {text!r} says no protocol; write "http://{text}", or https://', code="TL207"
        )
    if (parts := address_of(text)) is None:
        raise BadInput(f'{kind} needs the server: --set executor.options.{option}="{example}"', code="TL207")
    if parts.username or parts.password or parts.query:
        raise BadInput(
            f"executor.options.{option} may hold no name, password or query: it is stored with the run; put a key into "
            "an environment variable and name it in executor.options.api_key_env",
            code="TL207",
        )
    text = text.rstrip("/")
    for ending in PATHS.values():
        if text.endswith(ending):
            raise BadInput(
                f'executor.options.{option} goes as far as /v1: write "{text.removesuffix(ending)}"; {ending} comes '
                "from executor.options.endpoint",
                code="TL207",
            )
    return text


def reference_of(text: str) -> str:
    """A server's address or a folder with a config. Raises BadInput (TL207)."""
    if "://" in text:
        return server_url(text, option="reference")
    if text and not (Path(text).expanduser() / "config.json").is_file():
        raise BadInput(
            f"executor.options.reference {text!r} is neither a folder with a config.json nor the address of a server, "
            '"http://127.0.0.1:8001/v1"',
            code="TL207",
        )
    return text


def page_url(option: str, text: str, words: tuple[str, ...]) -> str:
    """The address of a page, or one of `words`. Raises BadInput (TL207)."""
    if text in words:
        return text
    parts = address_of(text)
    if parts is None or parts.username or parts.password:
        example = {"metrics_url": '"http://127.0.0.1:8000/metrics", or "off"', "dcgm_url": '"http://HOST:9400/metrics"'}
        raise BadInput(f"executor.options.{option} is the address of a page, {example[option]}", code="TL207")
    return text


def header_name(text: str) -> str:
    """The name of a header that a key can go in. Raises BadInput (TL207)."""
    if _HEADER_NAME.fullmatch(text) and text.lower() not in _OUR_HEADERS:
        return text
    raise BadInput(
        f"executor.options.key_header {text!r} is the name of no header for a key; write api-key, x-api-key or "
        "Authorization",
        code="TL207",
    )


def api_key(variable: str) -> str:
    """The key in an environment variable, "" where none is named. Raises BadInput (TL207)."""
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise BadInput(
            f"the environment variable {variable!r}, named in executor.options.api_key_env, is not set", code="TL207"
        )
    if not key.isascii() or any(ord(char) < 32 for char in key):
        raise BadInput(f"the environment variable {variable!r} holds no API key", code="TL207")
    return key


@dataclass(frozen=True, slots=True)
class ClientPool:
    """`clients`: so many processes, "auto" for as many as are needed, None where nothing was said.

    `on`: None for this machine, else a Ray cluster: "ray://HOST:PORT", or "ray://local" for the one that this machine
    belongs to, or that is started here.
    """

    clients: int | Literal["auto"] | None = None
    on: str | None = None

    @property
    def is_one(self) -> bool:
        """Whether the client is this process and no other."""
        return self.on is None and self.clients in (None, 1)


def client_pool_of(options: Mapping[str, Any]) -> ClientPool:
    """The client pool that the options of an executor ask for. Raises BadInput (TL207)."""
    clients, on = options.get("clients"), options.get("on") or None
    counted = isinstance(clients, int) and not isinstance(clients, bool) and 0 < clients <= _MOST_CLIENTS
    if not counted and clients not in (None, "auto"):
        raise BadInput(
            f'executor.options.clients is a number of processes, at most {_MOST_CLIENTS}, or "auto"; not {clients!r}',
            code="TL207",
        )
    if on is not None and not is_cluster(on):
        raise BadInput(f"clients run here or on Ray: ray://HOST:PORT or ray://local, not {on!r}", code="TL207")
    return ClientPool(clients, on)


def is_cluster(on: Any) -> bool:
    """Whether this is ray://HOST:PORT, or ray://local: the cluster that this machine is of, or one started here."""
    if on == "ray://local":
        return True
    try:
        parts = urlsplit(on)
        return parts.scheme == "ray" and bool(parts.hostname) and bool(parts.port) and parts.path in ("", "/")
    except (AttributeError, TypeError, ValueError):
        return False
