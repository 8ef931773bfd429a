"""`[executor.options]` of the embedded executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from twinlens.executors.capabilities import option, options_of, refuse_wrong_options

# Fields that several of torch's executors have.
attention_option = partial(
    option, "sdpa", ("sdpa", "eager"), tunes=True, description="The attention implementation asked of transformers."
)
_RANKS = "Processes that train together, one per GPU or share of a processor."
ranks_option = partial(option, 2, description=_RANKS, within=(1, 1024))
_PATIENCE = "Seconds in which a rank has to answer before it counts as hung."
patience_option = partial(option, 120.0, description=_PATIENCE, within=(1.0, 86400.0))
_COMPARED = "Steps whose losses are compared with one process before the rows; 0: none, and no ranking."
compared_option = partial(option, 3, description=_COMPARED, within=(0, 100))
_CLUSTER = "The Ray cluster on which the ranks run: ray://HOST:PORT, or ray://local."
cluster_option = partial(option, "", description=_CLUSTER)


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """The options of a spec, checked."""

    graph: str = option(
        "eager", ("eager", "compiled"), tunes=True, description="Run eagerly, or as torch's compiled graph."
    )
    attention: str = attention_option()
    layout: str = option(
        "auto",
        ("auto", "row", "column"),
        tunes=True,
        description='How linear weights are stored; "auto" is by column where that is known to be faster.',
    )
    freed_memory: str = option(
        "returned",
        ("returned", "kept"),
        tunes=True,
        description="What the C library does with freed memory: return it to the system, or keep it.",
    )
    adapter: str = option(
        "unmerged",
        ("unmerged", "merged"),
        description="How an adapter is served: beside the weights, or added to them before the first request.",
    )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Raises BadInput (TL207)."""
        refuse_wrong_options("torch", options, OPTIONS)
        return cls(**options)

    @property
    def is_compiled(self) -> bool:
        return self.graph == "compiled"


OPTIONS = options_of(TorchOptions)
LEAST_GPU = {"tf32": (8, 0), "fp8": (8, 9)}
"""The compute capability that a precision needs on an NVIDIA GPU."""
PRECISIONS_HERE = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8-dynamic", "int8-weight", "int4-weight")
"""Those it can make; which of them a device runs, it says when it is opened."""
METHODS = {"full": (), "lora": ("peft",), "dora": ("peft",), "qlora": ("peft", "bitsandbytes")}
"""What of a model it trains (`workload.method`), and the packages of the extra `finetune` that each takes."""
