"""How hard and on which settings: the only part of a spec that a sweep varies freely."""

from __future__ import annotations

from pydantic import PositiveInt

from twinlens.spec.frozen import Spec


class Point(Spec):
    """An operating point.

    `batch`: requests run together (inference). `microbatch`: sequences or images per forward pass (training; None:
    the whole global batch at once; smaller means gradient accumulation).
    """

    precision: str = "fp32"
    batch: PositiveInt = 1
    microbatch: PositiveInt | None = None
