"""The device that a spec asks for, read once: "auto", "cpu", "cuda" or "cuda:N"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinlens.errors import BadInput


@dataclass(frozen=True, slots=True)
class AskedDevice:
    """`index`: which of the GPUs that this process may see, from 0; None: whichever comes first."""

    kind: Literal["auto", "cpu", "cuda"]
    index: int | None = None

    def __str__(self) -> str:
        return self.kind if self.index is None else f"{self.kind}:{self.index}"

    @property
    def names_gpu(self) -> bool:
        """It is a GPU and nothing else will do."""
        return self.kind == "cuda"


def asked_device(word: str) -> AskedDevice:
    """Raises BadInput (TL208) for a word that names no device, here or anywhere."""
    kind, colon, number = word.partition(":")
    if kind == "mps":
        raise BadInput("executor.device 'mps': Apple GPUs are not supported; use cpu", code="TL208")
    if kind == "cuda" and (number.isdecimal() if colon else True):
        return AskedDevice("cuda", int(number) if colon else None)
    if word == "auto":
        return AskedDevice("auto")
    if word == "cpu":
        return AskedDevice("cpu")
    raise BadInput(f"executor.device {word!r} is not one of auto, cpu, cuda, cuda:N", code="TL208")
