"""Metrics pages of real servers, spoilt: columns that can be written, or one sentence."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
from frame import mutated

from twinlens.measurement.server.page import NoPage, ServerPage, sample_of
from twinlens.network.target import Target
from twinlens.record.samples import SERVER_SCHEMA

_PAGES = [path.read_bytes() for path in sorted((Path(__file__).parents[1] / "measurement" / "pages").glob("*.*[tn]"))]
_MOST_BYTES = 3000
WORDS = [
    b"\n", b" ", b"{", b"}", b'"', b"\\", b"#", b"NaN", b"+Inf", b"-Inf", b"1e400", b"-1", b"9" * 40, b"0x1p3", b"1_0",
    "²".encode(), b"\xff", b"\x00", b"null", b"[", b"]", b'{"iter":', b'"kvCacheStats":5',
    b"vllm:num_requests_running ", b"vllm:prompt_tokens_total{} ", b"# TYPE vllm:num_requests_running gauge\n",
    b",", b"=", b"tp_rank=\"0\"", b"true",
]  # fmt: skip


def check(source: random.Random) -> None:
    """One page, twice: servers are asked again and again."""
    page = ServerPage(Target("http://127.0.0.1:1/v1"))
    page._also = None
    whole = source.choice(_PAGES)
    at = source.randrange(max(1, len(whole) - _MOST_BYTES)) if source.random() < 0.5 and whole[:1] not in b"[{" else 0
    whole = whole[at : at + _MOST_BYTES] if whole[:1] not in b"[{" else whole
    for _ in range(2):
        try:
            columns = page.understand(mutated(source, whole, WORDS))
        except NoPage:
            continue
        row = sample_of(columns, 1, 1)
        pa.RecordBatch.from_pylist([{name: getattr(row, name) for name in SERVER_SCHEMA.names}], schema=SERVER_SCHEMA)
