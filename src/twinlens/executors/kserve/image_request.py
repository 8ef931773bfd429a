"""Requests that classify images by the KServe v2 protocol, as JSON or with raw bytes behind it; answers are JSON.

The tensors of a few requests are drawn and written before the run: drawing and encoding an image costs as much as some
models take. The first number of each request is its own, so that no two requests of a run are equal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from twinlens.executors.http_client.answer.ended import Ended
from twinlens.executors.http_client.answer.meaning import MOST_JSON_BYTES
from twinlens.executors.kserve.metadata import DATATYPES, Tensors
from twinlens.executors.one_answer.check import tensor_fault
from twinlens.executors.one_answer.row import row_of_one_answer
from twinlens.record.request import Request
from twinlens.schedule.content.prompt import Words
from twinlens.schedule.request import ScheduledRequest

_DRAWN = 4
_LEVELS = 100
"""Values of one pixel as they are drawn: 0 to 99, or hundredths of 1 for floating point."""


class ImageRequests:
    """`path`: that of the model; `head`: header lines, without the type of the content; `images`: of one request."""

    forces_length = False
    free = False
    most_json_bytes = MOST_JSON_BYTES

    def __init__(self, tensors: Tensors, images: int, path: str, head: str, seed: int) -> None:
        self._tensors, self._images = tensors, images
        self._shape = (images, *tensors.shape)
        self._begin = f"POST {path}/infer HTTP/1.1\r\n{head}"
        drawn = np.random.default_rng([seed, 0x1336]).integers(0, _LEVELS, (_DRAWN, math.prod(self._shape)))
        self._is_float = tensors.datatype.startswith("FP")
        values = drawn / _LEVELS if self._is_float else drawn
        self._tails = [self._encoded(row[1:]) for row in values]

    def of(self, scheduled: ScheduledRequest, answers: Sequence[str] = ()) -> bytes:
        """Head and body."""
        tail, first = self._tails[scheduled.number % _DRAWN], self._first(scheduled)
        entry: dict[str, Any] = {"name": self._tensors.name, "shape": self._shape, "datatype": self._tensors.datatype}
        if self._tensors.binary:
            raw = self._encoded(np.array([first])) + tail
            entry |= {"parameters": {"binary_data_size": len(raw)}}
            said = _json(scheduled, entry)
            kind = f"Content-Type: application/octet-stream\r\nInference-Header-Content-Length: {len(said)}\r\n"
            return self._sent(kind, said + raw)
        said = _json(scheduled, entry)[:-3]
        return self._sent("Content-Type: application/json\r\n", said + b',"data":[%b%b]}]}' % (b"%g" % first, tail))

    def row(self, scheduled: ScheduledRequest, ended: Ended, origin_ns: int) -> Request:
        """The row of an answer; failed where it is not what was asked for."""
        return row_of_one_answer(
            scheduled, ended, origin_ns, lambda said: tensor_fault(said, self._images, self._tensors.width)
        )

    def in_one_piece(self) -> Self:
        """The same: its answers are."""
        return self

    def quoting(self, words: Words) -> Self:
        """The same: images have no words."""
        return self

    def _first(self, scheduled: ScheduledRequest) -> float:
        number = int.from_bytes(np.random.SeedSequence(list(scheduled.seed)).generate_state(1).tobytes(), "little")
        return number % 2**20 / 2**20 if self._is_float else number % _LEVELS

    def _encoded(self, values: np.ndarray) -> bytes:
        """Values as they lie in a request: raw, or as JSON with a comma before each."""
        if self._tensors.binary:
            return values.astype(DATATYPES[self._tensors.datatype]).tobytes()
        return "".join(f",{value:g}" for value in values.tolist()).encode()

    def _sent(self, kind: str, body: bytes) -> bytes:
        return f"{self._begin}{kind}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


def _json(scheduled: ScheduledRequest, entry: dict[str, Any]) -> bytes:
    """The JSON of a request, which ends with that of its one input. The id may be left out by the protocol, but
    KServe's own server 0.21 answers 500 without one."""
    return json.dumps({"id": str(scheduled.number), "inputs": [entry]}, separators=(",", ":")).encode()
