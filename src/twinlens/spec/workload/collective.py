"""A collective as a workload: ranks that exchange one buffer, again and again."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from twinlens.spec.frozen import Spec

Exchange = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send"]
LARGEST_BYTES = 2**40


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
