"""A collective as a workload: ranks that exchange one buffer, again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from twinlens.spec.frozen import Spec

Exchange = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send"]
LARGEST_BYTES = 2**40
BUS_PARTS: dict[str, Callable[[Any], Any]] = {
    "all-reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all-gather": lambda ranks: (ranks - 1) / ranks,
    "reduce-scatter": lambda ranks: (ranks - 1) / ranks,
    "all-to-all": lambda ranks: (ranks - 1) / ranks,
}
"""The part of a buffer that passes a link, by exchange and number of ranks (one or an array), as nccl-tests define it
(doc/PERFORMANCE.md); of the others all of it."""


class CollectiveWorkload(Spec):
    """One exchange between ranks at one size. One row is one exchange.

    It trains nothing and answers nothing: its figures stand in a table of their own, beside neither lens of a model.
    """

    kind: Literal["collective"]
    exchange: Exchange = Field(
        description='What the ranks do together; "send": each sends to the next and receives from the one before.',
        examples=["all-reduce"],
    )
    size_bytes: int = Field(
        ge=4,
        le=LARGEST_BYTES,
        description="Bytes of the whole buffer, as nccl-tests count them: of a gather or scatter those of all ranks.",
        examples=[1048576],
    )

    @property
    def model(self) -> str:
        """The exchange, in the place where other workloads name their model: there is none."""
        return self.exchange

    def bus_factor(self, ranks: int) -> float:
        """Bus bandwidth over algorithm bandwidth among so many ranks; 0 for one, which exchanges nothing."""
        if self.exchange in BUS_PARTS:
            return float(BUS_PARTS[self.exchange](ranks))
        return 1.0 if ranks > 1 else 0.0
