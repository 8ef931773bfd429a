"""Metadata of a model by the KServe v2 protocol: whether it is ready, the tensors it takes, and what it gives back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.http_client.connection import Address
from twinlens.executors.kserve.options import KServeTarget
from twinlens.executors.openai.discovery import get
from twinlens.record.foreign_text import in_one_line

DATATYPES = {"FP32": "<f4", "FP64": "<f8", "FP16": "<f2", "UINT8": "|u1", "INT8": "|i1", "INT32": "<i4", "INT64": "<i8"}
"""Datatypes of images, and how numpy writes them."""
_MOST_NUMBERS = 2**22
"""Of one image: 1,182 × 1,182 points of three colours."""
_BINARY = "binary_tensor_data"


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


def read_metadata(asked: KServeTarget, address: Address) -> Tensors:
    """Ask the server about itself and the model. Raises ExecutorFailed (TL302) where it or the model is not ready, and
    BadInput (TL207) where its input is none that images can be sent to."""
    target = asked.target
    status, _, _ = get(target, address, f"{target.path}/v2/health/ready")
    if status != 200:
        said = f"HTTP {status}" if status else "no answer"
        raise ExecutorFailed(
            f"{target.url} is not ready by the KServe v2 protocol (GET /v2/health/ready: {said}); start it, or correct "
            "the url",
            code="TL302",
        )
    _, _, about = get(target, address, f"{target.path}/v2")
    about = about if isinstance(about, dict) else {}
    status, _, model = get(target, address, asked.path)
    if status != 200 or not isinstance(model, dict):
        raise ExecutorFailed(
            f"{target.url} says nothing of a model {asked.model!r} (HTTP {status}); name it in executor.options.model",
            code="TL302",
        )
    return tensors_of(asked, about, model)


def tensors_of(asked: KServeTarget, about: Mapping[str, Any], model: Mapping[str, Any]) -> Tensors:
    """The tensors from both pages. Raises BadInput (TL207)."""
    entries = _entries(model, "inputs")
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
    outputs = _entries(model, "outputs")
    rows = _sizes(outputs[0])[1:] if outputs else []
    width = math.prod(rows) if rows and min(rows) > 0 else None
    server, version = (in_one_line(str(about.get(key) or ""), 100) for key in ("name", "version"))
    return Tensors(name, datatype, shape, width, takes if asked.binary is None else asked.binary, server, version)


def _entries(page: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = page.get(name)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _sizes(entry: Mapping[str, Any]) -> list[int]:
    shape = entry.get("shape")
    return shape if isinstance(shape, list) and all(type(n) is int for n in shape) else []


def _unfit(asked: KServeTarget, why: str) -> BadInput:
    return BadInput(f"the model {asked.model!r} of {asked.target.url} {why}", code="TL207")
