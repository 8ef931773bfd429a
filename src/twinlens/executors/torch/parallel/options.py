"""`[executor.options]` of parallel training, and the mesh they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from twinlens.errors import BadInput
from twinlens.executors.capabilities import option, options_of, refuse_wrong_options
from twinlens.executors.torch.entry import (
    attention_option,
    cluster_option,
    compared_option,
    patience_option,
    ranks_option,
)
from twinlens.network.target import is_cluster

KIND = "torch-parallel"
PRECISIONS = ("fp32", "tf32", "bf16")
WHY_NOT = {
    "fp16": "ranks scale no loss here; take bf16, or one process of torch",
    "fp8": "ranks have no fp8 products here; take bf16, or one process of torch",
}
SHARDED = ("fsdp2", "hsdp")
_ONLY_OF = {
    "tensor": (*SHARDED, "tp"),
    "replicate": ("hsdp",),
    "schedule": ("pp",),
    "reshard": SHARDED,
    "reduce_precision": SHARDED,
    "bucket_mib": ("ddp",),
}
"""Options that only some ways of dividing have; elsewhere they would change nothing."""


@dataclass(frozen=True, slots=True)
class ParallelOptions:
    """The options of a spec, checked."""

    parallel: str = option(
        "ddp",
        ("ddp", "fsdp2", "hsdp", "tp", "pp"),
        description='How training is divided over ranks: "ddp" copies the model and adds up gradients, "fsdp2" shards '
        'weights, gradients and optimizer state, "hsdp" does so within each of `replicate` copies, "tp" splits every '
        'layer, "pp" gives each rank consecutive layers.',
    )
    ranks: int = ranks_option()
    tensor: int = option(
        1,
        description='Ranks that split every layer, inside "fsdp2" or "hsdp"; under "tp" it is all of them.',
        within=(1, 1024),
    )
    replicate: int = option(
        2,
        description='Copies of the model under "hsdp"; the ranks of a copy shard it, as under "fsdp2", or split its '
        "layers (`tensor`).",
        within=(1, 1024),
    )
    schedule: str = option(
        "1f1b",
        ("1f1b", "gpipe", "interleaved"),
        tunes=True,
        description='Order of microbatches under "pp"; "interleaved" gives each rank two stages that do not touch.',
    )
    reshard: str = option(
        "yes",
        ("yes", "no"),
        tunes=True,
        description="Whether fsdp2 and hsdp free gathered weights after the forward pass and gather them again.",
    )
    reduce_precision: str = option(
        "fp32",
        ("fp32", "bf16"),
        tunes=True,
        description="Format in which fsdp2 and hsdp add up gradients when they train in bf16.",
    )
    attention: str = attention_option()
    bucket_mib: float = option(
        25.0, tunes=True, description="Size in MiB of the buckets in which ddp adds up gradients.", within=(0.01, 1e6)
    )
    numa: str = option(
        "none",
        ("none", "node"),
        tunes=True,
        description='Whether torchrun keeps each rank on the processors of the NUMA node of its GPU ("node", by '
        'numactl); "none" keeps it nowhere, as torchrun does unasked.',
    )
    compared_steps: int = compared_option()
    patience_s: float = patience_option()
    on: str = cluster_option()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Raises BadInput (TL207), and (TL202) where the degrees do not divide the ranks."""
        refuse_wrong_options(KIND, options, OPTIONS)
        asked = cls(**options)
        _refuse_no_cluster(asked.on)
        if asked.on and asked.numa != "none":
            raise BadInput(
                'executor.options.numa = "node" is what torchrun does, which starts ranks on this machine alone; leave '
                "it out, or --on",
                code="TL207",
            )
        _refuse_without_effect(asked, options)
        _refuse_undivided_ranks(asked, "tensor" in options)
        return asked

    @property
    def split(self) -> int:
        """Ranks that split every layer."""
        return self.ranks if self.parallel == "tp" else self.tensor

    @property
    def stages(self) -> int:
        """Ranks of a pipeline; 1 where there is none."""
        return self.ranks if self.parallel == "pp" else 1

    @property
    def data(self) -> int:
        """Ranks that see different data."""
        return self.ranks // (self.split * self.stages)

    @property
    def copies(self) -> int:
        """Whole sets of weights among the data ranks."""
        return {"ddp": self.data, "hsdp": self.replicate}.get(self.parallel, 1)

    @property
    def mesh(self) -> dict[str, int]:
        """Axes of the device mesh and their sizes, the outermost first; those of size 1 that nobody asked for left
        out."""
        sizes = {
            "pipeline": self.stages,
            "replicate": self.copies,
            "shard": self.data // self.copies,
            "tensor": self.split,
        }
        own = _AXES[self.parallel]
        return {name: size for name, size in sizes.items() if name in own or size > 1}


_AXES = {"ddp": ("replicate",), "fsdp2": ("shard",), "hsdp": ("replicate", "shard"), "tp": ("tensor",),
         "pp": ("pipeline",)}  # fmt: skip
OPTIONS = options_of(ParallelOptions)


def _refuse_without_effect(asked: ParallelOptions, options: Mapping[str, Any]) -> None:
    for name, ways in _ONLY_OF.items():
        idle = 1 if name == "replicate" else OPTIONS[name].default  # the value that asks for nothing
        if options.get(name, idle) != idle and asked.parallel not in ways:
            words = " and ".join(f'"{way}"' for way in ways)
            instead = "leave it out"
            if name in ("tensor", "replicate") and asked.parallel == "pp":
                instead = (
                    'a pipeline of split or copied stages is not measured here; take "hsdp" (replicate × shard × '
                    'tensor) or "pp" alone, or read the log of Megatron-LM or torchtitan (executor.kind = '
                    '"trainer-log")'
                )
            if name == "tensor" and asked.parallel == "ddp":
                instead = 'take "hsdp" with executor.options.replicate, which copies a split model, too'
            raise BadInput(
                f'executor.options.{name} of {KIND} is of {words}, and not of "{asked.parallel}"; {instead}',
                code="TL207",
            )


def _refuse_undivided_ranks(asked: ParallelOptions, names_tensor: bool) -> None:
    if asked.parallel == "tp" and names_tensor and asked.tensor not in (1, asked.ranks):
        raise BadInput(
            f'"tp" splits every layer over all {asked.ranks} ranks; for {asked.tensor} take executor.options.parallel '
            '= "fsdp2" or "hsdp" with that executor.options.tensor',
            code="TL202",
        )
    of = asked.tensor * (asked.replicate if asked.parallel == "hsdp" else 1)
    if asked.parallel in SHARDED and asked.ranks % of:
        words = f"tensor {asked.tensor}" + (f" × replicate {asked.replicate}" if asked.parallel == "hsdp" else "")
        raise BadInput(
            f"executor.options.{words} do not divide {asked.ranks} ranks; set executor.options.ranks to a multiple of "
            f"{of}",
            code="TL202",
        )


EXCHANGE_KIND = "torch-collectives"


@dataclass(frozen=True, slots=True)
class ExchangeOptions:
    """The options of a spec, checked."""

    ranks: int = option(
        2, description="Processes that exchange a buffer, one per GPU or share of a processor.", within=(2, 1024)
    )
    patience_s: float = patience_option()
    on: str = cluster_option()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Raises BadInput (TL207)."""
        refuse_wrong_options(EXCHANGE_KIND, options, EXCHANGE_OPTIONS)
        asked = cls(**options)
        _refuse_no_cluster(asked.on)
        return asked


EXCHANGE_OPTIONS = options_of(ExchangeOptions)


def _refuse_no_cluster(on: str) -> None:
    if on and not is_cluster(on):
        raise BadInput(f"ranks run here or on Ray: ray://HOST:PORT or ray://local, not {on!r}", code="TL207")


ELEMENT_BYTES = 4
"""Of fp32, of which buffers are."""
REFUSED = {
    "gloo": {
        "reduce-scatter": "gloo sums the whole buffer on every rank, which is an all-reduce: its time is not that of a "
        "reduce-scatter"
    }
}
"""By backend and exchange, the reason."""


def refuse_exchange(backend: str, exchange: str) -> None:
    """Raises BadInput (TL243)."""
    if reason := REFUSED.get(backend, {}).get(exchange):
        raise BadInput(f"{exchange} has no figure here: {reason}", code="TL243")
