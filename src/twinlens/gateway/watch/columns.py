"""Outcomes as columns: rows of requests as any measured run has them, and beside them the route that each one took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from twinlens.gateway.outcome import Ending, Outcome
from twinlens.gateway.routing.route import Band, Candidate
from twinlens.record.checksum import OF
from twinlens.record.foreign_text import in_one_line
from twinlens.record.request import REQUEST_SCHEMA, RequestOutcome

_OUTCOMES: dict[Ending, RequestOutcome] = {
    "ok": "ok", "refused": "refused", "failed": "failed", "cut_off": "cut_off", "left": "cut_off",
}  # fmt: skip
_WORDS, _TIMES, _REALS = pa.list_(pa.string()), pa.list_(pa.int64()), pa.list_(pa.float64())
_NOTHING = (float("nan"),) * 3
_BANDS = ("ttft_s", "tpot_s")
ROUTE_SCHEMA = pa.schema([
    ("group", pa.int64()), ("id", pa.string()), ("key", pa.string()), ("model", pa.string()), ("ending", pa.string()),
    ("queued_ns", pa.int64()), ("counted", pa.bool_()), ("cached_tokens", pa.int64()), ("money", pa.string()),
    *(pa.field(name, kind, metadata={OF: b"attempts"}) for name, kind in (
        ("attempts", _WORDS), ("failures", _WORDS), ("begin_ns", _TIMES), ("first_ns", _TIMES))),
    ("reason", pa.string()),
    ("candidates", _WORDS), ("in_flight", _TIMES), ("out", _WORDS),
    *((f"{name}{part}", _REALS) for name in _BANDS for part in ("", "_low", "_high")),
    ("cost", _REALS), ("joules", _REALS),
])  # fmt: skip
"""One row a request, `group` as in requests.arrows. `attempts`: the backends that were asked, in turn, why each was
given up ("": it was not), when it was asked and had its first content (-1: none came). `candidates`: those of the first
choice, `out`: why one could not be chosen; predictions and costs as they stood then, NaN where nothing was predicted.
`counted`: whether the backend counted the tokens of the answer; else they are its content events, at least as many."""


def request_rows(outcomes: Sequence[Outcome], first: int, origin_ns: int) -> pa.Table:
    """Rows of REQUEST_SCHEMA, numbered from `first`, with times from `origin_ns` on.

    Tokens that a backend counted and its events did not show are with the last chunk. A client that left cut its
    answer off.
    """
    count = len(outcomes)
    lengths = np.fromiter((len(each.chunk_ns) for each in outcomes), np.int32, count)
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int32))).astype(np.int32)
    chunk_ns = np.maximum(_flat((each.chunk_ns for each in outcomes), np.int64, int(offsets[-1])) - origin_ns, 0)
    chunk_tokens = _flat((each.chunk_tokens for each in outcomes), np.int32, int(offsets[-1]))
    seen = np.array([sum(each.chunk_tokens) for each in outcomes], np.int64)
    made = np.array([-1 if each.output_tokens is None else each.output_tokens for each in outcomes], np.int64)
    rest = (made > seen) & (lengths > 0)
    chunk_tokens[offsets[1:][rest] - 1] += (made - seen)[rest].astype(np.int32)
    intended = _ns((each.intended_ns for each in outcomes), origin_ns, count)
    columns: dict[str, Any] = {
        "group": np.arange(first, first + count),
        "intended_ns": intended,
        "sent_ns": np.maximum(intended, _ns((_sent_ns(each) for each in outcomes), origin_ns, count)),
        "chunk_ns": pa.ListArray.from_arrays(pa.array(offsets), pa.array(chunk_ns)),
        "chunk_tokens": pa.ListArray.from_arrays(pa.array(offsets), pa.array(chunk_tokens)),
        "end_ns": np.maximum(intended, _ns((each.end_ns for each in outcomes), origin_ns, count)),
        "input_tokens": [each.input_tokens for each in outcomes],
        "output_tokens": np.where(made < 0, seen, made),
        "outcome": [_OUTCOMES[each.ending] for each in outcomes],
        "asked_tokens": [each.asked.most_tokens or None if each.asked else None for each in outcomes],
        "released_ns": [_released_ns(each, origin_ns) for each in outcomes],
        "status": [each.status for each in outcomes],
        "error": [in_one_line(each.error) if each.error else None for each in outcomes],
    }
    return pa.Table.from_arrays(
        [
            pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
            for field in REQUEST_SCHEMA
        ],
        schema=REQUEST_SCHEMA,
    )


def route_rows(outcomes: Sequence[Outcome], first: int, origin_ns: int) -> pa.Table:
    """Rows of ROUTE_SCHEMA for the same outcomes."""
    choices = [each.attempts[0].route if each.attempts else None for each in outcomes]
    tries = [a for each in outcomes for a in each.attempts]
    candidates = [c for each in choices if each for c in each.candidates]
    by_try = _offsets(len(each.attempts) for each in outcomes)
    by_candidate = _offsets(len(each.candidates) if each else 0 for each in choices)
    columns: dict[str, Any] = {
        "group": np.arange(first, first + len(outcomes)),
        "reason": [each.reason if each else None for each in choices],
        "counted": [each.output_tokens is not None for each in outcomes],
        "money": [None if each.money is None else str(each.money) for each in outcomes],
    }
    for name in ("id", "key", "model", "ending", "queued_ns", "cached_tokens"):
        columns[name] = [getattr(each, name) for each in outcomes]
    first_ns = [-1 if a.first_ns is None else a.first_ns - origin_ns for a in tries]
    of_tries = (
        [a.backend for a in tries],
        [a.failure for a in tries],
        [a.begin_ns - origin_ns for a in tries],
        first_ns,
    )
    nested: dict[str, Any] = dict(
        zip(("attempts", "failures", "begin_ns", "first_ns"), ((each, by_try) for each in of_tries), strict=True)
    )
    parts = list(zip(*candidates, strict=True)) or [()] * len(Candidate._fields)
    names, in_flight, ttft, tpot, cost, joules, out = parts
    plain = {"candidates": names, "in_flight": in_flight, "out": out}
    reals = {"cost": _known(cost), "joules": _known(joules), **_bands("ttft_s", ttft), **_bands("tpot_s", tpot)}
    nested |= {name: (each, by_candidate) for name, each in (plain | reals).items()}
    return pa.Table.from_arrays([_column(field, columns, nested) for field in ROUTE_SCHEMA], schema=ROUTE_SCHEMA)


def _column(field: pa.Field, columns: dict[str, Any], nested: dict[str, Any]) -> pa.Array:
    if field.name in columns:
        return pa.array(columns[field.name], field.type)
    values, offsets = nested[field.name]
    return pa.ListArray.from_arrays(offsets, pa.array(values, field.type.value_type))


def _offsets(lengths: Iterable[int]) -> pa.Array:
    return pa.array(np.cumsum([0, *lengths], dtype=np.int32))


def _known(values: Sequence[float | None]) -> np.ndarray:
    return np.array(values, float)  # None is NaN


def _bands(name: str, bands: Sequence[Band | None]) -> dict[str, np.ndarray]:
    """Middle, low and high of each, NaN where nothing was predicted."""
    found = np.array([_NOTHING if each is None else each for each in bands], float).reshape(-1, 3)
    return {f"{name}{part}": np.ascontiguousarray(found[:, at]) for at, part in enumerate(("", "_low", "_high"))}


def _sent_ns(outcome: Outcome) -> int:
    return outcome.attempts[0].begin_ns if outcome.attempts else outcome.intended_ns


def _released_ns(outcome: Outcome, origin_ns: int) -> int | None:
    """When the queue let it go, where it waited there."""
    return max(0, outcome.intended_ns + outcome.queued_ns - origin_ns) if outcome.queued_ns else None


def _ns(times: Iterable[int], origin_ns: int, count: int) -> np.ndarray:
    return np.maximum(np.fromiter(times, np.int64, count) - origin_ns, 0)


def _flat(lists: Iterable[list[int]], dtype: Any, count: int) -> np.ndarray:
    return np.fromiter(chain.from_iterable(lists), dtype, count)
