"""The KServe v2 protocol: what a model takes by its metadata, and requests that classify images, as JSON or with raw
bytes behind it; answers are JSON.

The tensors of a few requests are drawn and written before the run: drawing and encoding an image costs as much as some
models take. The first number of each request is its own, so that no two requests of a run are equal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from twinlens.errors import BadInput
from twinlens.network.answer.ended import Ended
from twinlens.network.answer.meaning import MOST_JSON_BYTES
from twinlens.network.dialect.one_answer import entries_of, row_of_one_answer, tensor_fault
from twinlens.network.target import KServeTarget
from twinlens.record.foreign_text import in_one_line
from twinlens.record.request import Request
from twinlens.schedule.prompt import Words
from twinlens.schedule.request import ScheduledRequest

DATATYPES = {"FP32": "<f4", "FP64": "<f8", "FP16": "<f2", "UINT8": "|u1", "INT8": "|i1", "INT32": "<i4", "INT64": "<i8"}
"""Datatypes of images, and how numpy writes them."""
_MOST_NUMBERS = 2**22
"""Of one image: 1,182 × 1,182 points of three colours."""
_BINARY = "binary_tensor_data"
_DRAWN = 4
_LEVELS = 100
"""Values of one pixel as they are drawn: 0 to 99, or hundredths of 1 for floating point."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """The input of a model and its answer. `shape`: of one image. `width`: numbers an image in the first output, None
    where the metadata leaves it open. `server`, `version`: as the server calls itself."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    width: int | None
    binary: bool
    server: str
    version: str

    @property
    def sent(self) -> str:
        """How an image is sent: datatype, shape, encoding."""
        return f"{self.datatype} {list(self.shape)}, {'raw bytes' if self.binary else 'JSON'}"


def tensors_of(asked: KServeTarget, about: Mapping[str, Any], model: Mapping[str, Any]) -> Tensors:
    """The tensors from both pages. Raises BadInput (TL207)."""
    entries = entries_of(model, "inputs")
    if len(entries) != 1:
        raise _unfit(asked, f"takes {len(entries)} inputs, and images are one")
    name, datatype, sizes = entries[0].get("name"), entries[0].get("datatype"), _sizes(entries[0])
    if not isinstance(name, str) or not isinstance(datatype, str) or datatype not in DATATYPES:
        raise _unfit(asked, f"takes {in_one_line(str(datatype), 40)}, and images are sent as {', '.join(DATATYPES)}")
    shape = asked.shape or tuple(sizes[1:])
    if not shape or min(shape) < 1:
        raise _unfit(
            asked, f"leaves the shape of an image open ({sizes}): --set executor.options.shape='[3, 224, 224]'"
        )
    if math.prod(shape) > _MOST_NUMBERS:
        raise _unfit(asked, f"takes images of {list(shape)} numbers, and at most {_MOST_NUMBERS:,} in all can be sent")
    extensions = about.get("extensions")
    takes = isinstance(extensions, list) and _BINARY in extensions
    outputs = entries_of(model, "outputs")
    rows = _sizes(outputs[0])[1:] if outputs else []
    width = math.prod(rows) if rows and min(rows) > 0 else None
    server, version = (in_one_line(str(about.get(key) or ""), 100) for key in ("name", "version"))
    return Tensors(name, datatype, shape, width, takes if asked.binary is None else asked.binary, server, version)


def _sizes(entry: Mapping[str, Any]) -> list[int]:
    shape = entry.get("shape")
    return shape if isinstance(shape, list) and all(type(n) is int for n in shape) else []


def _unfit(asked: KServeTarget, why: str) -> BadInput:
    return BadInput(f"the model {asked.model!r} of {asked.target.url} {why}", code="TL207")


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
