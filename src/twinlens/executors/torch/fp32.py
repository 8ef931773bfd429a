"""The meaning of fp32 for matrix products, convolutions and recurrences: IEEE fp32, or tf32 where it was asked for.

torch keeps this twice, in flags of before 2.9 and in `fp32_precision` since, and raises where the two disagree: reading
`torch.get_float32_matmul_precision()`, as its compiler does, fails once only one was written. So both are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_NEWER = ("cuda.matmul", "cudnn.conv", "cudnn.rnn")


def set_fp32(precision: str) -> None:
    """Make fp32 tf32 for the precision "tf32", and IEEE fp32 for every other one. cuDNN's own default is tf32."""
    _set(precision == "tf32", precision == "tf32")


@contextmanager
def fp32_as(precision: str) -> Iterator[None]:
    """The same for as long as the block lasts; then as it was."""
    before = _state()
    set_fp32(precision)
    try:
        yield
    finally:
        _set(*before)


def fp32_settings() -> dict[str, str]:
    """The meaning of fp32 now, by where it is used: "ieee", "tf32", or "none" (torch's default: ieee for products)."""
    settings = {name: _read(name) for name in (*_NEWER, "mkldnn.matmul")}
    if settings["cuda.matmul"] is None:  # torch before 2.9
        older = {"cuda.matmul": torch.backends.cuda.matmul.allow_tf32, "cudnn.conv": torch.backends.cudnn.allow_tf32}
        return {name: "tf32" if on else "ieee" for name, on in older.items()}
    return {name: value for name, value in settings.items() if value is not None}


def _set(products: bool, convolutions: bool) -> None:
    torch.set_float32_matmul_precision("high" if products else "highest")
    torch.backends.cudnn.allow_tf32 = convolutions
    for name in _NEWER:
        part = _part(name)
        if hasattr(part, "fp32_precision"):
            part.fp32_precision = "tf32" if (products if name == "cuda.matmul" else convolutions) else "ieee"


def _state() -> tuple[bool, bool]:
    settings = fp32_settings()
    return settings["cuda.matmul"] == "tf32", settings["cudnn.conv"] == "tf32"


def _read(name: str) -> str | None:
    return getattr(_part(name), "fp32_precision", None)


def _part(name: str) -> object:
    part: object = torch.backends
    for step in name.split("."):
        part = getattr(part, step, None)
    return part
