"""Metrics pages of servers, in one small set of columns (`record/samples.py`). Pure: takes what a page holds.

A page of vLLM holds 100 KB, nearly all of it buckets of histograms. It is cut down to the lines that are wanted before
anything is parsed, and those go to the parser of prometheus_client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from twinlens.executors.registry import server_words
from twinlens.executors.server_words import NEVER_LAUNCHED
from twinlens.record.samples import ServerSample

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
