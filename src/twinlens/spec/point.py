"""The operating point: rate, batch, precision and settings, the only part of a spec that a sweep varies freely."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveFloat, PositiveInt

from twinlens.spec.frozen import Spec

POLICY_FIELDS = {"static": ("batch",), "dynamic": ("batch", "timeout_s"), "continuous": ("in_flight",)}
"""The fields that each admission policy reads; the others mean nothing to it."""


class Point(Spec):
    """An operating point.

    `batch`: requests run together (inference). `microbatch`: sequences or images per forward pass (training; None:
    the whole global batch at once; smaller means gradient accumulation).

    `rate_per_s`: arrivals per second of an open loop (of sessions, where the workload has them). `concurrency`:
    requests in flight of a closed loop. `admission`: how requests are held back in front of the server, to compare
    ways of batching: "static" (wait for `batch` of them, then for all their answers), "dynamic" (the same, but wait
    at most `timeout_s` for a batch to fill) or "continuous" (send at once, at most `in_flight` at a time). Where
    `admission` is swept, each policy gets its own of these fields and the others are left out of its points.
    """

    precision: str = "fp32"
    batch: PositiveInt = 1
    microbatch: PositiveInt | None = None
    rate_per_s: PositiveFloat | None = None
    concurrency: PositiveInt | None = None
    admission: Literal["static", "dynamic", "continuous"] | None = None
    timeout_s: PositiveFloat | None = None
    in_flight: PositiveInt | None = None

    @property
    def label(self) -> str:
        """Its precision and how hard, in a few words: "bf16 at 4/s"."""
        hard = [f"at {self.rate_per_s:g}/s"] if self.rate_per_s is not None else []
        hard += [f"{self.concurrency} in flight"] if self.concurrency is not None else []
        return " ".join([self.precision, *hard])
