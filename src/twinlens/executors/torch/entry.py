"""The embedded executor: its capabilities and options. torch is imported when one is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from twinlens.executors.capabilities import (
    ALL_FAMILIES,
    Capabilities,
    Executor,
    named,
    option,
    options_of,
    refuse_wrong_options,
)
from twinlens.spec.model.any_model import any_model
from twinlens.spec.study import RunSpec

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


_trainer = named("twinlens.executors.torch.train:TorchTrainer")
_server = named("twinlens.executors.torch.infer:TorchServer")


def _preload(spec: RunSpec) -> None:
    """Import torch and the model's own classes: a model without memory needs them all."""
    from twinlens.executors.torch.model.build import parameter_count

    parameter_count(any_model(spec.workload.model))
    _trainer() if spec.lens == "training" else _server()


EXECUTOR = Executor(
    Capabilities(
        families=ALL_FAMILIES,
        precisions=PRECISIONS_HERE,
        least_gpu=LEAST_GPU,
        settings=("device", "threads"),
        options=OPTIONS,
        computes_with="torch",
        packages=("torch",),
        install="pip install 'twinlens[torch]'",
        is_sized_by_theory=True,
        quantises=True,
        compares_with_fp32=True,
        methods=METHODS,
        serves_adapters=METHODS["lora"],
        saves_weights=True,
        saves_state=True,
        takes_any_type=True,
    ),
    trainer=_trainer,
    server=_server,
    probe=named("twinlens.executors.torch.evidence.work:probe_device"),
    preload=_preload,
    profile=named("twinlens.executors.torch.kernel_time:profiled"),
)
