"""The metrics pages of a server, fetched again and again over connections that are kept."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from twinlens.executors.registry import server_words
from twinlens.executors.server_words import NEVER_LAUNCHED
from twinlens.network.page import PageClient
from twinlens.network.target import Target
from twinlens.record.foreign_text import in_one_line
from twinlens.record.samples import ServerSample
from twinlens.system.document import json_of

_PATIENCE_S = 5.0  # trtllm-serve waits two seconds for statistics where there are none
_MOST_BYTES = 1 << 22
_MOVED = (301, 302, 307, 308)
_ALSO = "/prometheus/metrics"  # where trtllm-serve has the page that others have at /metrics
_PAUSE_S = 5e-5
_PORTS = {"http": 80, "https": 443}


class NoPage(Exception):
    """Why a page could not be read, in a few words."""


class HttpPage:
    """The page at `url`. The API key of `target` goes only to the server it is meant for."""

    def __init__(self, url: str, target: Target) -> None:
        parts = urlsplit(url)
        self.url = url
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        page, server = (parts.scheme, host, port), (target.host, target.port)
        is_target = page == ("https" if target.is_tls else "http", *server)
        known = ("User-Agent", "Accept-Encoding")
        self._headers = {key: value for key, value in target.headers().items() if key in known}
        self._headers |= {"Accept": "text/plain"} | (target.key_headers() if is_target else {})
        tls = None
        if parts.scheme == "https":
            tls = target.tls() if is_target else ssl.create_default_context()
        self._client = PageClient(host, port, tls)

    def get(self) -> bytes:
        """The page. Raises NoPage."""
        until_s = time.monotonic() + _PATIENCE_S
        for _ in range(2):  # a mounted page is often one redirection away
            try:
                page = self._client.ask(self._path, self._headers, until_s - time.monotonic(), most_bytes=_MOST_BYTES)
            except (OSError, http.client.HTTPException) as error:
                why = in_one_line(str(error) or type(error).__name__, 100)
                raise NoPage(f"the metrics page does not answer ({why})") from None
            place = page.headers.get("location", "")
            if page.status in _MOVED and place:
                self._path = self._moved(place)
                continue
            if page.status != 200:
                raise NoPage(f"the server has no metrics page ({page.status})")
            return page.body
        raise NoPage("the metrics page is moved from place to place")

    def close(self) -> None:
        self._client.close()

    def _moved(self, place: str) -> str:
        """The path of a redirection, on the same server. Raises NoPage for what is no address."""
        try:
            path = urlsplit(urljoin(self.url, place)).path
        except ValueError:
            raise NoPage(f"the metrics page is moved to {in_one_line(place, 60)!r}, which is no address") from None
        return quote(path.encode("latin-1", "replace"), safe="/%:@!$&'()*+,;=~") or "/"


def pause() -> None:
    """Hand the interpreter over. A client that waits for it would be given it after half a millisecond otherwise."""
    time.sleep(_PAUSE_S)


class ServerPage:
    """The metrics of one server: its Prometheus page, or TensorRT-LLM's two."""

    def __init__(self, target: Target) -> None:
        parts = urlsplit(target.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        self._page = HttpPage(target.metrics_url or f"{origin}/metrics", target)
        self._also: HttpPage | None = HttpPage(f"{origin}{_ALSO}", target)
        self._steps = IterationStats()

    @property
    def url(self) -> str:
        return self._page.url

    def fetch(self) -> bytes:
        """The page as it is now. Raises NoPage."""
        return self._page.get()

    def understand(self, body: bytes) -> Columns:
        """All that it says. Raises NoPage."""
        try:
            if body.lstrip()[:1] in (b"[", b"{"):
                return self._steps.add(json_of(body.decode())) | self._beside()
            columns = columns_of(body, pause)
        except (ValueError, LookupError, ArithmeticError, RecursionError) as error:  # the parser's own, too
            raise NoPage(f"the metrics page cannot be read ({str(error)[:100]})") from None
        if not columns:
            raise NoPage("the metrics page has none of the names that are known here")
        return columns

    def close(self) -> None:
        self._page.close()
        if self._also is not None:
            self._also.close()

    def _beside(self) -> Columns:
        if self._also is None:
            return {}
        try:
            return columns_of(self._also.get(), pause)
        except (NoPage, ValueError):
            self._also = None  # asked once: a server without it has none later either
            return {}


# Metrics pages of servers, in one small set of columns (`record/samples.py`). Pure: takes what a page holds.
#
# A page of vLLM holds 100 KB, nearly all of it buckets of histograms. It is cut down to the lines that are wanted
# before anything is parsed, and those go to the parser of prometheus_client.

Columns = dict[str, float]
"""Column of `ServerSample` to value; what the page does not say is missing."""

_HISTOGRAMS = ("ttft", "queue", "prefill", "decode", "e2e", "itl")
_OF_ONE_ENGINE = ("kv_use", "slots")
_REAL = frozenset({"kv_use", *(f"{name}_sum_s" for name in _HISTOGRAMS)})
# Ranks of one model repeat each other's numbers; ranks of data parallelism (dp_rank, engine) do not.
_REPEATING = ("tp_rank", "pp_rank", "moe_ep_rank")
# An answer that the client saw end: what was aborted or failed is none.
_UNANSWERED = ("abort", "error")
_AT_ONCE = 6  # lines, about 0.1 ms


@lru_cache(maxsize=1)
def _wanted() -> dict[bytes, tuple[str, ...]]:
    """Metric to its columns, of every runtime that an installed executor knows. Front ends that pass a server's metrics
    on write "vllm_" for "vllm:"."""
    return {
        f"{words.prefix}{mark}{name}".encode(): tuple(columns.split())
        for words in (*server_words(), *NEVER_LAUNCHED)
        for mark in ":_"
        for name, columns in words.metrics.items()
    }


def wanted_lines(page: bytes) -> bytes:
    """Only the lines of a page whose metric has a column."""
    wanted = _wanted()
    return b"\n".join(line for line in page.split(b"\n") if line.partition(b"{")[0].partition(b" ")[0] in wanted)


def columns_of(page: bytes, pause: Callable[[], None] = lambda: None) -> Columns:
    """A Prometheus text page in columns. Raises ValueError for a page that is none.

    `pause` is called after every few lines, so that whoever shares the interpreter need not wait for all of them.
    """
    # Only here: the package brings an HTTP server along, and most runs have no page to parse.
    from prometheus_client.parser import text_string_to_metric_families

    families = text_string_to_metric_families(wanted_lines(page).decode("utf-8", "replace") + "\n")
    samples = []
    for number, family in enumerate(families):
        samples += [(s.name, s.labels, s.value) for s in family.samples]
        if number % _AT_ONCE == _AT_ONCE - 1:
            pause()
    columns: Columns = {}
    for name, values in _by_name(samples):
        for column in _wanted().get(name.encode(), ()):  # a line that is broken may be a sample of another name
            total = sum(values) / len(values) if column in _OF_ONE_ENGINE else sum(values)
            if column.startswith("+"):
                columns[column[1:]] = columns.get(column[1:], 0) + total
            else:
                columns.setdefault(column, total)
    return typed(columns)


def _by_name(samples: Iterable[tuple[str, Mapping[str, str], float]]) -> Iterator[tuple[str, list[float]]]:
    """The values of each metric, one for every engine: of ranks that repeat each other the lowest one's."""
    kept: dict[str, dict[tuple[tuple[str, str], ...], tuple[tuple[str, ...], float]]] = {}
    for name, labels, value in samples:
        if value != value or labels.get("finished_reason") in _UNANSWERED:  # NaN: not set yet
            continue
        engine = tuple(sorted((key, text) for key, text in labels.items() if key not in _REPEATING))
        rank = tuple(labels.get(key, "").zfill(6) for key in _REPEATING)
        known = kept.setdefault(name, {}).get(engine)
        if known is None or rank < known[0]:
            kept[name][engine] = (rank, value)
    for name, engines in kept.items():
        yield name, [value for _, value in engines.values()]


def sample_of(columns: Columns, time_ns: int, round_trip_ns: int, error: str | None = None) -> ServerSample:
    """Columns as one row."""
    plain: dict[str, Any] = dict(columns)  # each of the type that `typed` has given it
    return ServerSample(time_ns, round_trip_ns, error=error, **plain)


def typed(columns: Columns) -> Columns:
    """Counts as integers; what is no finite number is left out."""
    return {
        name: value if name in _REAL else round(value)
        for name, value in columns.items()
        if value == value and abs(value) < 2**63
    }


class IterationStats:
    """Sums up what was read, as reading empties the page: totals since the first reading.

    `iter` numbers the steps of the engine; those that fell out of the server's queue are in it as well.
    """

    def __init__(self) -> None:
        self._totals: Columns = {}
        self._last: Columns = {}

    def add(self, steps: Any) -> Columns:
        """Take one page, already decoded. Raises ValueError for anything but a list of objects."""
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise ValueError("not a list of iteration statistics")
        for step in steps:
            self._take(step)
        return typed(self._totals | self._last)

    def _take(self, step: Mapping[str, Any]) -> None:
        batch, cache, draft = (
            _part(step, key) for key in ("inflightBatchingStats", "kvCacheStats", "specDecodingStats")
        )
        for column, of, key in (
            ("iteration_tokens", batch, "numCtxTokens"),
            ("iteration_tokens", batch, "numGenRequests"),
            ("finished", step, "numCompletedRequests"),
            ("draft_tokens", draft, "numDraftTokens"),
            ("accepted_tokens", draft, "numAcceptedTokens"),
        ):
            if (value := _number(of.get(key))) is not None:
                self._totals[column] = self._totals.get(column, 0) + value
        hits, misses = _number(cache.get("reusedBlocks")), _number(cache.get("missedBlocks"))
        used, most = _number(cache.get("usedNumBlocks")), _number(cache.get("maxNumBlocks"))
        number = _number(step.get("iter"))
        latest = {
            "running": _number(step.get("numActiveRequests")),
            "waiting": _number(step.get("numQueuedRequests")),
            "slots": _number(step.get("maxNumActiveRequests")) or None,
            "iterations": None if number is None else number + 1,
            "prefix_hits": hits,
            "prefix_queries": None if hits is None or misses is None else hits + misses,
            "kv_use": used / most if used is not None and most else None,
        }
        self._last |= {column: value for column, value in latest.items() if value is not None}


def _part(step: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = step.get(key)
    return part if isinstance(part, dict) else {}


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
